"""Beside KCL's workers: does a leader of theirs give leases out? It counts no passes, so the leases themselves are looked at.

A worker of KCL 3.5.1 that lost the race for the index at its start has no assignment job, and leads all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median_low
from typing import Any

from pipeline.beside_kcl.renewal_pace import paces_of
from pipeline.core.due import is_time
from pipeline.core.lease import Lease
from pipeline.core.sighting import (
    Sightings,
    expired,
    from_cursor,
    look,
    suspects_to_cursor,
    time_from_cursor,
    time_to_cursor,
)
from pipeline.core.words import counted
from pipeline.core.worker import not_ours
from pipeline.duties.part_memory import PartMemory, from_json
from pipeline.errors import WrongShape
from pipeline.ports import LeaderLock, LeaseStore, WorkerStore
from pipeline.settings.model import TimeSettings

_PERIODS = 3


@dataclass(frozen=True, slots=True)
class Unassigned:
    """What is remembered of a leader of KCL's and of the open leases."""

    last: datetime | None = None
    leader: str | None = None
    lock: str | None = None
    """Its version, as last seen."""
    leases: Sightings = field(default_factory=dict)
    """Owner, checkpoint and counter of each: whoever is at work moves them."""
    pace: timedelta | None = None
    """Between two renewals of a lease, as seen between the last two looks."""

    def as_json(self, *, whole: bool) -> Any:
        if self.last is None:
            return None
        return [time_to_cursor(self.last), self.leader, self.lock, suspects_to_cursor(self.leases)]

    @classmethod
    def of(cls, memory: PartMemory) -> Unassigned:
        return memory if isinstance(memory, cls) else from_json(cls._read, memory, cls())

    @classmethod
    def _read(cls, said: Any) -> Unassigned:
        last, leader, lock, leases = said
        return cls(time_from_cursor(last), leader, lock, from_cursor(leases))


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
        tokens = {row.key: f"{row.owner or ''}:{row.checkpoint}:{row.counter}" for row in open_rows}
        since = now - before.last if before.last is not None and beats else None
        seen = look(known, tokens, since=since, tick=every)
        pace = None if since is None else self._pace(open_rows, paces_of(known, tokens, since))
        after = Unassigned(now, found.owner, found.version, seen, pace)
        return after, self._alarm(after)

    def _pace(self, rows: Sequence[Lease], paces: Mapping[str, timedelta]) -> timedelta | None:
        """Of KCL's workers alone: ours beat at each tick, whatever the fleet does."""
        owners = sorted({row.owner for row in rows if row.owner is not None and row.key in paces})
        guests = not_ours(owners, self.workers.get_many(owners).workers) if owners else ()
        theirs = [paces[row.key] for row in rows if row.owner in guests and row.key in paces]
        return median_low(theirs) if theirs else None

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
