"""Tells whether a new client of this process would use other AWS credentials than before, without a request to AWS.

A boto3 client reads AWS's environment variables and configuration files once, when it is made. Clients are
kept, because making one costs as much CPU as a hundred requests; a kept client doesn't see keys that a person
has replaced in a file. Credentials of a role need no check here: the client itself fetches new ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_FILES = (("AWS_CONFIG_FILE", ".aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"))


# Seconds. A tick asks for a dozen clients; a look at two files for each of them cost more CPU than a
# request to AWS.
_CHECKED_EVERY: Final = 1.0


class Identity:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._looked = -math.inf
        self._variables: tuple[object, ...] = ()
        self._stamps: tuple[object, ...] = ()

    def of(self, environ: Mapping[str, str]) -> tuple[object, ...]:
        """A value that changes whenever a new client could use other credentials or another endpoint: at once
        for a variable, within a second for a file. The value holds keys: never show it.
        """
        # The names are filtered before any value is read: reading a value of os.environ decodes it.
        variables = tuple(sorted((name, environ[name]) for name in environ if name.startswith("AWS_")))
        now = self._monotonic()
        if variables != self._variables or now - self._looked >= _CHECKED_EVERY:
            self._looked, self._variables = now, variables
            self._stamps = tuple(_stamp(environ.get(name), usual) for name, usual in _FILES)
        return (variables, *self._stamps)


def _stamp(named: str | None, usual: str) -> tuple[int, int] | None:
    path = Path(named).expanduser() if named else Path.home() / usual
    try:
        status = path.stat()
    except OSError:
        # There is no such file, or this process may not read it.
        return None
    return status.st_mtime_ns, status.st_size
