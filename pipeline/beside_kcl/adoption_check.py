"""Whether a worker in a KCL fleet's tables may read yet: the lake table knows where a stream begins.

In a new application, of which no row has a checkpoint yet, that is decided here, before the worker shows itself. In a fleet that has
checkpoints `headrace adopt` has to say first where each shard goes on. Until then every run refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.core.due import is_time
from pipeline.core.position import Positions
from pipeline.core.sighting import time_from_cursor, time_to_cursor
from pipeline.core.sync import rows_of
from pipeline.duties.origin import ensure_origin, plan_origin
from pipeline.duties.part_memory import PartMemory, from_json
from pipeline.errors import HeadraceError, OriginUnsafe, Unknown
from pipeline.ports import LandingTable, LeaseStore, ShardSource, TableState
from pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True)
class AdoptionMemory:
    """What is remembered of the last look."""

    looked: datetime | None = None
    why_not: str = ""
    """Why no stream may be read; empty: one may, and is never asked about again."""

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
    """Both are made when they are first asked: most ticks ask neither."""

    def look(self, before: AdoptionMemory, now: datetime) -> tuple[str, AdoptionMemory]:
        """Why no stream may be read, and what to remember. Where that can't be found out now, a worker works."""
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
        """One stream that may be read is enough: the worker is of use.

        Where a stream begins is committed before the worker offers itself: KCL's workers may write the fleet's first
        checkpoint before the first wave here, and after that no wave could decide it any more.
        """
        state, rows = self._state(), self.leases.scan().leases
        refused, may_read = "", False
        for stream in self.settings.streams:
            facts = self.source().describe(stream.name)
            its = rows_of(facts.stream, rows)
            try:
                if plan_origin(state, facts, stream=stream, leases=its) is not None:
                    table = self.table()
                    table.ensure()
                    state = ensure_origin(table, table.load(), facts, stream=stream, leases=its)
            except OriginUnsafe as error:
                refused = refused or str(error)
            else:
                may_read = True
        return "" if may_read else refused

    def _state(self) -> TableState:
        try:
            return self.table().load()
        except Unknown:
            return TableState(Positions(), None, origin_allowed=True)
