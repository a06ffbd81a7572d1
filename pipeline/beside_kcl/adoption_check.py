"""Whether a worker that shares its tables with KCL workers may read yet: the lake table must have an origin
of a stream.

If no lease row has a checkpoint yet, the application is new: the origin is committed here, before the worker
writes its own row. If KCL's workers have written checkpoints, `headrace adopt` must commit first where each
shard goes on. Until then each run refuses to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.sighting import time_from_cursor, time_to_cursor
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.sharing.sync_plan import rows_of_stream
from headrace.pipeline.duties.policy.memory import PartMemory, from_json
from headrace.pipeline.duties.streams.lake_table import ensure_table
from headrace.pipeline.duties.streams.origin import ensure_origin, plan_origin
from headrace.pipeline.errors import HeadraceError, OriginUnsafe, Unknown
from headrace.pipeline.ports.landing import LandingTable, TableState
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True)
class AdoptionMemory:
    """What a worker's tick remembers of the last check whether the lake table has adopted KCL's checkpoints."""

    looked: datetime | None = None
    why_not: str = ""
    """Why no stream may be read. Empty: a stream may be read, and there is no further check."""

    def as_json(self, *, whole: bool) -> Any:
        return None if self.looked is None else [time_to_cursor(self.looked), self.why_not]

    @classmethod
    def of(cls, memory: PartMemory) -> AdoptionMemory:
        return memory if isinstance(memory, cls) else from_json(cls._read, memory, cls())

    @classmethod
    def _read(cls, said: Any) -> AdoptionMemory:
        looked, why_not = said
        return cls(time_from_cursor(looked), why_not)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionCheck:
    settings: Settings
    leases: LeaseStore
    source: Callable[[], ShardSource]
    table: Callable[[], LandingTable]
    """Source and table are made at their first use, because most ticks need neither."""

    def look(self, before: AdoptionMemory, now: datetime) -> tuple[str, AdoptionMemory]:
        """Check whether the lake table has an origin. Returns why no stream may be read (empty if that may be
        done), and what to remember. If the check itself fails, the answer is empty and the worker works: a run
        checks again before it reads.
        """
        if before.looked is not None:
            is_due = before.why_not and is_time(before.looked, now, every=self.settings.times.assignment)
            if not is_due:
                return before.why_not, before
        try:
            why_not = self._why_not()
        except HeadraceError:
            return "", before
        return why_not, AdoptionMemory(now, why_not)

    def _why_not(self) -> str:
        """Why no stream may be read. Empty if at least one may, because then the worker has something to do.

        Commits the origins of new streams. It must happen before the worker writes its row and KCL's leader
        gives it leases: KCL's workers may write the first checkpoints before this worker's first run, and
        then no run may decide the origin.
        """
        state, rows = self._state(), self.leases.scan().leases
        refused, may_read = "", False
        for stream in self.settings.streams:
            facts = self.source().describe(stream.name)
            leases = rows_of_stream(facts.stream, rows)
            try:
                # Raises OriginUnsafe, for example if rows of the stream have checkpoints and the stream isn't adopted.
                if plan_origin(state, facts, stream=stream, leases=leases) is not None:
                    table = self.table()
                    ensure_table(table, self.leases, name=self.settings.landing.table)
                    state = ensure_origin(table, table.load(), facts, stream=stream, leases=leases)
            except OriginUnsafe as error:
                refused = refused or str(error)
            else:
                may_read = True
        return "" if may_read else refused

    def _state(self) -> TableState:
        try:
            return self.table().load()
        except Unknown:
            # The lake table doesn't exist yet. `_why_not` creates it once an origin can be committed.
            return TableState(Positions(), None, origin_allowed=True)
