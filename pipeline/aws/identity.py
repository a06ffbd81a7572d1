"""Tells whether a new client of this process would use other AWS credentials than before, without a request to AWS.

A boto3 client reads AWS's environment variables and configuration files once, when it is made. Clients are kept, because
making one costs as much CPU as a hundred requests; a kept client doesn't see keys that a person has replaced in a file.
Credentials of a role need no check here: the client itself fetches new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_FILES = (("AWS_CONFIG_FILE", ".aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"))


def identity(environ: Mapping[str, str]) -> tuple[object, ...]:
    """A value that changes whenever a new client could use other credentials or another endpoint. It holds keys: never show it."""
    variables = tuple(sorted(item for item in environ.items() if item[0].startswith("AWS_")))
    return (variables, *(_stamp(environ.get(name), usual) for name, usual in _FILES))


def _stamp(named: str | None, usual: str) -> tuple[int, int] | None:
    path = Path(named).expanduser() if named else Path.home() / usual
    try:
        found = path.stat()
    except OSError:
        # There is no such file, or this process may not read it.
        return None
    return found.st_mtime_ns, found.st_size
