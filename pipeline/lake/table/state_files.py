"""JSON files for positions and ledgers that are too large for a snapshot's summary. The summary has file names and
hashes:

    "1:<digest>:<full file>:<its hash>"                               all positions, and this snapshot's ledger
    "1:<digest>:<full file>:<its hash>:<delta file>:<its hash>"       the delta file has what changed since the full file was
                                                                      written, and this snapshot's ledger

The files are outside the table's location: inside, other engines' orphan removal would delete them, because no Iceberg
metadata names them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from pyiceberg.io import FileIO, load_file_io

from headrace.pipeline.core.landing.ledger_codec import read_full
from headrace.pipeline.core.landing.state_delta import FullState, TiedState
from headrace.pipeline.errors import ChainBroken, WrongShape
from headrace.pipeline.lake.table.position_chain import POSITIONS
from headrace.pipeline.lake.table.remedy import OF_THE_LAKE_TABLE, Remedy

# A name with a slash could lead out of the folder: summaries are written by others, too.
_FILE = r"(?P<{0}>[^:/]+):(?P<{0}_hash>[0-9a-f]{{64}})"
_FORM = re.compile(rf"1:(?P<digest>[0-9a-f]{{64}}):{_FILE.format('full')}(?::{_FILE.format('delta')})?")


@dataclass(frozen=True, slots=True)
class StateFile:
    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """The names and hashes of the files that have a snapshot's positions and ledger, as its summary states them."""

    full: StateFile
    digest: int
    """The digest of the positions."""
    delta: StateFile | None = None

    @classmethod
    def read(cls, text: str) -> Pointer:
        match = _FORM.fullmatch(text)
        if match is None:
            raise WrongShape(
                f"a snapshot points to its positions by {text[:80]!r}, which this version of Headrace can't read. Nothing was "
                "changed; upgrade Headrace on this deployment"
            )
        groups = match.groupdict()
        return cls(
            StateFile(groups["full"], groups["full_hash"]),
            int(groups["digest"], 16),
            StateFile(groups["delta"], groups["delta_hash"]) if groups["delta"] else None,
        )

    def __str__(self) -> str:
        files = [self.full] if self.delta is None else [self.full, self.delta]
        return ":".join((f"1:{self.digest:064x}", *(f"{file.name}:{file.hash}" for file in files)))

    @property
    def own(self) -> StateFile:
        """The file that this snapshot has written, with its ledger."""
        return self.delta or self.full

    @property
    def names(self) -> tuple[str, ...]:
        return (self.full.name,) if self.delta is None else (self.full.name, self.delta.name)


@dataclass(slots=True)
class KeptStates:
    """The positions (states) that this process has read or written last, so that it needn't decode ten thousand
    positions for each commit. It reads the files and compares their hashes all the same: the kept values never
    decide which state is the table's, or whether that state is whole.
    """

    _last: tuple[tuple[Pointer, TiedState], ...] = ()
    """Newest first. One value, because the sensors of a process tick in threads."""

    def keep(self, pointer: Pointer, state: TiedState) -> None:
        # Two: a state whose commit was refused doesn't replace the one in use.
        self._last = ((pointer, state), *(entry for entry in self._last if entry[0] != pointer))[:2]

    def find(self, pointer: Pointer) -> TiedState | None:
        return next((state for stored, state in self._last if stored == pointer), None)

    def full(self, file: StateFile) -> FullState | None:
        return next((state.full for stored, state in self._last if stored.full == file), None)


@dataclass(frozen=True, slots=True)
class StateFiles:
    location: str
    """A folder: a local path or a URI."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The catalog's properties, which include endpoint and region of the file system."""
    kept: KeptStates = field(default_factory=KeptStates, compare=False)
    remedy: Remedy = OF_THE_LAKE_TABLE
    """For a file that is gone or damaged."""

    def write(self, values: Mapping[str, str], *, of: UUID) -> StateFile:
        """Store values in a new file. It is called before the commit whose summary names the file, so that a
        crash in between leaves an unused file and never a name without a file. `of`: the id of the table, because
        several tables may share one folder.
        """
        body = json.dumps(dict(values), indent=1).encode()
        name = f"{of.hex}-{uuid4().hex}.json"
        with self.io().new_output(self.path(name)).create() as out:
            out.write(body)
        return StateFile(name, hashlib.sha256(body).hexdigest())

    def read(self, file: StateFile) -> dict[str, str]:
        return dict(json.loads(self._body(file)))

    def full(self, file: StateFile, values: Mapping[str, str]) -> FullState:
        """All positions in a full file. `values`: the JSON values that were read from the file."""
        return self.kept.full(file) or FullState.of(read_full(values[POSITIONS]))

    def path(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{name}"

    def io(self) -> FileIO:
        return load_file_io(dict(self.options), self.location)

    def _body(self, file: StateFile) -> bytes:
        path = self.path(file.name)
        try:
            with self.io().new_input(path).open() as source:
                body = source.read()
        except FileNotFoundError as error:
            raise ChainBroken(
                f"the positions of {self.remedy.table} are in the file {path}, and the file is gone: it was deleted, or landing.state was "
                f"changed. Nothing was committed; set landing.state back, put the file back from a backup, or {self.remedy.way}"
            ) from error
        # Whoever may write into the folder can change a file. A position that no commit has decided would lose or
        # double records.
        if hashlib.sha256(body).hexdigest() != file.hash:
            raise ChainBroken(
                f"the file {path} was changed after it was written: its hash differs from the one in the snapshot. Nothing was "
                f"committed; put the file back from a backup, or {self.remedy.way}"
            )
        return body
