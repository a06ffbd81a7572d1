"""Each worker watches the leader, because a leader may hold the lock, beat it, and still assign no leases.

Headrace's leaders count each finished assignment pass in their own worker row. A leader of another program
doesn't count its passes; only the beat of its lock is watched.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.sighting import Sighting, after_look
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.leases import LeaderLock, WorkerStore
from headrace.pipeline.settings.model import TimeSettings

_PERIODS = 3
"""Assignment periods without a finished pass before a worker raises the alarm: one slow pass is no alarm."""


@dataclass(frozen=True, slots=True)
class LeaderWatchMemory:
    """What a worker remembers of the leader from tick to tick."""

    last: datetime | None = None
    """When the worker looked last."""
    lock: str | None = None
    """The version of the lock as last seen."""
    passes: Sighting | None = None
    """The leader's count of assignment passes."""
    other: Sighting | None = None
    """The version of the lock while a worker of another application holds it."""

    def is_led_by_another(self, *, within: timedelta) -> bool:
        """Whether a worker of another program leads: it holds the lock, and has beaten it within this time."""
        return self.other is not None and self.other.moved and self.other.credit <= within


@dataclass(frozen=True, slots=True)
class LeaderWatch:
    lock: LeaderLock
    workers: WorkerStore
    times: TimeSettings

    def look(self, before: LeaderWatchMemory, now: datetime) -> tuple[LeaderWatchMemory, str | None]:
        """Check the leader. Returns what to remember, and an alarm if there is one. Costs two reads in each
        assignment period: the lock and the leader's worker row.
        """
        period = self.times.assignment
        if not is_time(before.last, now, every=period):
            return before, self._alarm(before)
        lock_row = self.lock.read()
        row = None if lock_row is None or lock_row.released else self._row_of(lock_row.owner)
        if lock_row is not None and row is not None and not row.is_ours:
            since = None if before.last is None else now - before.last
            earlier = {} if before.other is None else {"lock": before.other}
            sighting = after_look(
                earlier, {"lock": f"{lock_row.owner}:{lock_row.version}"}, since=since, tick=period
            )["lock"]
            return LeaderWatchMemory(now, lock_row.version, other=sighting), None
        if lock_row is None or row is None:
            return LeaderWatchMemory(now), None
        # Only time in which the lock was beaten counts against the leader. If the lock stands still, another leader
        # sensor takes it over, and no alarm is needed.
        beats = before.lock is not None and before.lock != lock_row.version
        since = now - before.last if before.last is not None and beats else None
        earlier_passes = {} if before.passes is None else {row.worker_id: before.passes}
        token = {row.worker_id: f"{row.worker_id}:{row.assign_pass}"}
        passes = after_look(earlier_passes, token, since=since, tick=period)[row.worker_id]
        after = LeaderWatchMemory(now, lock_row.version, passes)
        return after, self._alarm(after)

    def _row_of(self, worker_id: str) -> Worker | None:
        """The worker's row; None where there is none, or where it isn't understood, which the leader's tick reports."""
        try:
            return self.workers.get(worker_id)
        except WrongShape:
            return None

    def _alarm(self, watch: LeaderWatchMemory) -> str | None:
        if watch.passes is None or watch.passes.credit <= _PERIODS * self.times.assignment:
            return None
        leader = watch.passes.token.rpartition(":")[0]
        return (
            f"worker {leader} holds the leader's lock and beats, but has finished no assignment for {watch.passes.credit}: "
            "some leases may have no worker that reads them; no record is lost. Look at the leader sensor of that worker's "
            "deployment; `headrace stop` there makes it release the lock"
        )
