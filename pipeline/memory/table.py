"""The landing table in a dictionary: what the simulator runs on, held to the same promises as Iceberg."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Literal

from pipeline.core.batch import StagedFile
from pipeline.core.landing import Landing, Proposal, decide_landing
from pipeline.core.lineage import LedgerPage
from pipeline.core.position import Positions
from pipeline.errors import ChainBroken, CommitUnknown, Transient
from pipeline.ports import Clock, Committed, LandingTable, StagingSpec, TableState

COLUMNS = (
    "stream",
    "stream_epoch",
    "shard_id",
    "sequence_number",
    "sub_sequence_number",
    "partition_key",
    "explicit_hash_key",
    "arrival_ts",
    "data",
    "decode_error",
)
_STALE = timedelta(hours=12)
_UNSURE_TRIES = 3

Way = Literal["request", "answer"]


class Lost(Exception):
    """What a fault raises for a request or an answer that never arrived."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    id: int
    parent: int | None
    positions: Positions
    page: LedgerPage
    files: tuple[StagedFile, ...]
    """Those that this commit added."""


class MemoryTable(LandingTable):
    def __init__(self, clock: Clock, location: str = "memory") -> None:
        self.snapshots: dict[int, Snapshot] = {}
        self.head: int | None = None
        self.fault: Callable[[Way], None] = lambda _: None
        """Called around each swap; may raise `Lost`, or move the world on."""
        self._clock = clock
        self._location = location
        self._ids = itertools.count(1)
        self._lock = Lock()

    def ensure(self) -> None:
        """It always is there."""

    def load(self) -> TableState:
        return self._state(self.head)

    def staging_spec(self) -> StagingSpec:
        return StagingSpec(self._location, tuple((name, i) for i, name in enumerate(COLUMNS, start=1)))

    def commit(self, proposal: Proposal) -> Committed:
        self._check_age(proposal.files)
        tries: dict[int, Landing] = {}
        unsure = 0
        while True:
            base = self.load()
            for snapshot in self.history(base.snapshot):
                if snapshot.id in tries:
                    return self._committed(snapshot.id, tries[snapshot.id])
            if unsure >= _UNSURE_TRIES:
                raise CommitUnknown(
                    f"{unsure} commits went without an answer, and the table shows none of them"
                )
            landing = decide_landing(base.positions, proposal)
            if landing.is_empty:
                return Committed(landing, None, base)
            made = Snapshot(next(self._ids), base.snapshot, landing.positions, landing.page, landing.files)
            tries[made.id] = landing
            try:
                if self._swap(made):
                    return self._committed(made.id, landing)
            except Lost:
                unsure += 1

    def history(self, head: int | None) -> Iterator[Snapshot]:
        """From a snapshot back to the first."""
        while head is not None:
            yield self.snapshots[head]
            head = self.snapshots[head].parent

    def rollback(self, to: int | None) -> None:
        """As a person does with a table: later snapshots stay known, but are no part of it any more."""
        with self._lock:
            self.head = to

    def _swap(self, made: Snapshot) -> bool:
        self.fault("request")
        with self._lock:
            if self.head != made.parent:
                return False
            self.snapshots[made.id] = made
            self.head = made.id
        self.fault("answer")
        return True

    def _state(self, head: int | None) -> TableState:
        if head is not None:
            return TableState(self.snapshots[head].positions, head, origin_allowed=False)
        if self.snapshots:
            raise ChainBroken("the table was rolled back to before its first landing. Nothing was committed")
        return TableState(Positions(), None, origin_allowed=True)

    def _committed(self, snapshot: int, landing: Landing) -> Committed:
        return Committed(landing, snapshot, self._state(snapshot))

    def _check_age(self, files: tuple[StagedFile, ...]) -> None:
        oldest = min((file.staged_at for file in files), default=None)
        if oldest is not None and self._clock.now() - oldest > _STALE:
            raise Transient(f"files staged at {oldest} are older than {_STALE}. Nothing was committed")
