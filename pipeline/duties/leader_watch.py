"""Every worker keeps an eye on the leader: a lock that beats isn't yet a leader that gives leases out.

Leaders of ours count each finished assignment pass in their worker row. One that isn't ours counts none: of its lock only
the beat is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.core.due import is_time
from pipeline.core.sighting import Sighting, look
from pipeline.core.worker import Worker
from pipeline.errors import WrongShape
from pipeline.ports import LeaderLock, WorkerStore
from pipeline.settings.model import TimeSettings

_PERIODS = 3


@dataclass(frozen=True, slots=True)
class LeaderWatchMemory:
    last: datetime | None = None
    lock: str | None = None
    """Its version, as last seen."""
    passes: Sighting | None = None
    other: Sighting | None = None
    """Of the lock, where a worker that isn't ours holds it."""

    def is_led_by_another(self, *, within: timedelta) -> bool:
        """Whether that lock has moved, and not longer ago than this."""
        return self.other is not None and self.other.moved and self.other.credit <= within


@dataclass(frozen=True, slots=True)
class LeaderWatch:
    lock: LeaderLock
    workers: WorkerStore
    times: TimeSettings

    def look(self, before: LeaderWatchMemory, now: datetime) -> tuple[LeaderWatchMemory, str | None]:
        """Every assignment period one read of the lock and one of its owner's row."""
        period = self.times.assignment
        if not is_time(before.last, now, every=period):
            return before, self._alarm(before)
        found = self.lock.read()
        row = None if found is None or found.released else self._row_of(found.owner)
        if found is not None and row is not None and not row.is_ours:
            since = None if before.last is None else now - before.last
            known = {} if before.other is None else {"lock": before.other}
            other = look(known, {"lock": f"{found.owner}:{found.version}"}, since=since, tick=period)["lock"]
            return LeaderWatchMemory(now, found.version, other=other), None
        if found is None or row is None:
            return LeaderWatchMemory(now), None
        beats = before.lock is not None and before.lock != found.version
        since = now - before.last if before.last is not None and beats else None
        seen = {} if before.passes is None else {row.worker_id: before.passes}
        token = {row.worker_id: f"{row.worker_id}:{row.assign_pass}"}
        passes = look(seen, token, since=since, tick=period)[row.worker_id]
        after = LeaderWatchMemory(now, found.version, passes)
        return after, self._alarm(after)

    def _row_of(self, worker_id: str) -> Worker | None:
        """One that isn't understood is that worker's trouble; the leader's tick names it."""
        try:
            return self.workers.get(worker_id)
        except WrongShape:
            return None

    def _alarm(self, seen: LeaderWatchMemory) -> str | None:
        if seen.passes is None or seen.passes.credit <= _PERIODS * self.times.assignment:
            return None
        leader = seen.passes.token.rpartition(":")[0]
        return (
            f"worker {leader} holds the leader's lock and beats, but has finished no assignment for {seen.passes.credit}: "
            "leases may stand unread, no record is lost. Look at its leader sensor; `headrace stop` there makes it let go of "
            "the lock"
        )
