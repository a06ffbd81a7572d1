"""Every few minutes the leader checks whether another application lands in its table, and tells people if one does.

The sentence is shown in the leader's ticks, and kept as `notice` in the leader's worker row, where `headrace
status` finds it without loading the lake table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.core.landing.applications import LOOKED_BACK, notice_of, others_at_work
from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.leases import WorkerStore

LOOK_EVERY: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class NeighboursMemory:
    """What the leader remembers of its last check for other applications in its table. If this memory is lost,
    the leader checks once more.
    """

    looked: datetime | None = None
    notice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    me: str
    """The application, as its commits name it."""
    leader: str
    """The worker whose row gets the notice."""
    table: LakeTable
    workers: WorkerStore
    clock: Clock

    def look(self, memory: NeighboursMemory) -> NeighboursMemory:
        """Check for other applications if it is time, and write a new sentence about them into the leader's row.
        A check that fails is repeated when the next one is due.
        """
        now = self.clock.now()
        if not is_time(memory.looked, now, every=LOOK_EVERY):
            return memory
        try:
            commits = self.table.landings(now - LOOKED_BACK)
            notice = notice_of(others_at_work(commits, self.me))
            self._write(notice)
        except HeadraceError:
            # Landing doesn't depend on it, and whatever is wrong with the table or the row is told by the duties that
            # need them.
            return replace(memory, looked=now)
        return NeighboursMemory(now, notice)

    def _write(self, notice: str | None) -> None:
        row = self.workers.get(self.leader)
        if row is not None and row.notice != notice:
            self.workers.set_notice(self.leader, notice)
