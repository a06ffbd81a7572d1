"""Beside KCL's workers: does a leader of theirs give leases out? It counts no passes, so the leases themselves are looked at.

A worker of KCL 3.5.1 that lost the race for the index at its start has no assignment job, and leads all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipeline.core.due import is_time
from pipeline.core.sighting import Sightings, expired, look
from pipeline.core.words import counted
from pipeline.errors import WrongShape
from pipeline.ports import LeaderLock, LeaseStore, WorkerStore
from pipeline.settings import TimeSettings

_PERIODS = 3


@dataclass(frozen=True, slots=True)
class Unassigned:
    """What is remembered of a leader of KCL's and of the open leases."""

    last: datetime | None = None
    leader: str | None = None
    lock: str | None = None
    """Its version, as last seen."""
    leases: Sightings = field(default_factory=dict)
    """Owner and counter of each: whoever is at work moves them."""


@dataclass(frozen=True, slots=True)
class KclLeaderWatch:
    lock: LeaderLock
    workers: WorkerStore
    leases: LeaseStore
    times: TimeSettings

    def look(self, before: Unassigned, now: datetime) -> tuple[Unassigned, str | None]:
        """Every third assignment period, and a scan only while a worker of KCL's holds the lock."""
        every = _PERIODS * self.times.assignment
        if not is_time(before.last, now, every=every):
            return before, self._alarm(before)
        found = self.lock.read()
        if found is None or found.released or self._is_ours(found.owner):
            return Unassigned(now), None
        known = before.leases if before.leader == found.owner else {}
        beats = before.last is not None and before.lock != found.version
        open_rows = [row for row in self.leases.scan().leases if not row.has_ended]
        tokens = {row.key: f"{row.owner or ''}:{row.counter}" for row in open_rows}
        since = now - before.last if before.last is not None and beats else None
        after = Unassigned(now, found.owner, found.version, look(known, tokens, since=since, tick=every))
        return after, self._alarm(after)

    def _is_ours(self, worker_id: str) -> bool:
        """A leader of KCL's without an assignment job has no row either; ours beats in one. An odd row tells neither."""
        try:
            row = self.workers.get(worker_id)
        except WrongShape:
            return True
        return row is not None and row.is_ours

    @property
    def _patience(self) -> timedelta:
        """For a death to be noticed and three of KCL's assignments, which come every two of its failover times."""
        duration = self.times.lease_duration
        return duration + _PERIODS * max(self.times.assignment, 2 * duration)

    def _alarm(self, seen: Unassigned) -> str | None:
        still = expired(seen.leases, self._patience)
        if not still:
            return None
        return (
            f"worker {seen.leader}, of KCL, holds the leader's lock and beats, but {counted(len(still), 'lease')} "
            f"({min(still)}{', ...' if len(still) > 1 else ''}) stood still for more than {self._patience}: nobody reads them, "
            "no record is lost. Restart that worker, so that another one leads"
        )
