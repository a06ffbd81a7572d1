"""JSON files for positions and ledgers that are too large for a snapshot's summary. The summary has file name and hash.

The files are outside the table's location: inside, other engines' orphan removal would delete them, because no Iceberg
metadata names them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from pyiceberg.io import FileIO, load_file_io

from pipeline.errors import ChainBroken, WrongShape

_VERSION = "1"


@dataclass(frozen=True, slots=True)
class StateFiles:
    location: str
    """A folder: a local path or a URI."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The catalog's properties, which include endpoint and region of the file system."""

    def write(self, values: Mapping[str, str], *, of: UUID) -> str:
        """Store values and return the pointer to them. It is called before the commit whose summary has the pointer: a crash in between
        leaves an unused file, and never a pointer without a file. `of`: the table, because several may have one folder.
        """
        body = json.dumps(dict(values), indent=1).encode()
        name = f"{of.hex}-{uuid4().hex}.json"
        with self.io().new_output(self.path(name)).create() as out:
            out.write(body)
        return f"{_VERSION}:{name}:{hashlib.sha256(body).hexdigest()}"

    def read(self, pointer: str) -> dict[str, str]:
        name, digest = _parse(pointer)
        path = self.path(name)
        try:
            with self.io().new_input(path).open() as source:
                body = source.read()
        except FileNotFoundError as error:
            raise ChainBroken(
                f"the lake table's positions are in the file {path}, and the file is gone. Nothing was committed; put it "
                "back from a backup, or run `headrace repair`, which takes the positions from the rows"
            ) from error
        if hashlib.sha256(body).hexdigest() != digest:
            raise ChainBroken(
                f"the file {path} was changed after it was written: its hash differs from the one in the snapshot. Nothing was "
                "committed; put the file back from a backup, or run `headrace repair`"
            )
        return dict(json.loads(body))

    def path(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{name}"

    def io(self) -> FileIO:
        return load_file_io(dict(self.options), self.location)


def name_in(pointer: str) -> str:
    """The name of the file that a summary points to."""
    return _parse(pointer)[0]


def _parse(pointer: str) -> tuple[str, str]:
    version, name, digest = (*pointer.split(":"), "", "")[:3]
    # A name with a slash could lead out of the folder: summaries are written by others, too.
    if version != _VERSION or not name or "/" in name:
        raise WrongShape(
            f"a snapshot points to its positions by {pointer[:80]!r}, which this version of Headrace can't read. Nothing was "
            "changed; upgrade Headrace on this deployment"
        )
    return name, digest
