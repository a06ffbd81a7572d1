"""Watches whether a KCL worker that leads really assigns leases.

A KCL 3.5.1 worker that lost the race for creating the index when it started has no assignment job, but can
still get the leader's lock. Then the lock beats, but no leases are assigned. A KCL leader doesn't count its
assignment passes in its row, so this watch looks at the leases: a lease that stands still for too long isn't
assigned to a living worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median_low
from typing import Any

from headrace.pipeline.beside_kcl.renewal_pace import renewal_periods
from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import (
    Sightings,
    after_look,
    expired,
    from_cursor,
    suspects_to_cursor,
    time_from_cursor,
    time_to_cursor,
)
from headrace.pipeline.core.leases.worker import not_ours
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.policy.memory import PartMemory, from_json
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, WorkerStore
from headrace.pipeline.settings.model import TimeSettings

# How many assignment periods lie between two looks, and how many may pass before a lease that stands still
# is reported.
_PERIODS = 3


@dataclass(frozen=True, slots=True)
class KclLeaderMemory:
    """What a worker's tick remembers of a KCL leader and of the open leases."""

    last: datetime | None = None
    leader: str | None = None
    lock: str | None = None
    """The version of the lock (recordVersionNumber) at the last look."""
    leases: Sightings = field(default_factory=dict)
    """Owner, checkpoint and counter of each lease. A worker that reads or renews a lease changes one of them."""
    renewal_period: timedelta | None = None
    """The time between two renewals of a lease by KCL's workers, measured between the last two looks."""

    def as_json(self, *, whole: bool) -> Any:
        if self.last is None:
            return None
        return [time_to_cursor(self.last), self.leader, self.lock, suspects_to_cursor(self.leases)]

    @classmethod
    def of(cls, memory: PartMemory) -> KclLeaderMemory:
        return memory if isinstance(memory, cls) else from_json(cls._read, memory, cls())

    @classmethod
    def _read(cls, said: Any) -> KclLeaderMemory:
        last, leader, lock, leases = said
        return cls(time_from_cursor(last), leader, lock, from_cursor(leases))


@dataclass(frozen=True, slots=True)
class KclLeaderWatch:
    lock: LeaderLock
    workers: WorkerStore
    leases: LeaseStore
    times: TimeSettings

    def look(self, before: KclLeaderMemory, now: datetime) -> tuple[KclLeaderMemory, str | None]:
        """Check whether a KCL leader assigns leases. Returns what to remember, and an alarm if leases aren't
        assigned. Checks in every third assignment period, and scans the leases only while a KCL worker holds the
        lock.
        """
        every = _PERIODS * self.times.assignment
        if not is_time(before.last, now, every=every):
            return before, self._alarm(before)
        lock_row = self.lock.read()
        if lock_row is None or lock_row.released or self._is_ours(lock_row.owner):
            return KclLeaderMemory(now), None
        sightings_before = before.leases if before.leader == lock_row.owner else {}
        # Time counts against the leases only while the lock beats: after the leader died, others have to take
        # the lock first.
        beats = before.last is not None and before.lock != lock_row.version
        open_rows = [row for row in self.leases.scan().leases if not row.has_ended]
        # `renewal_periods` takes these tokens apart again: the counter comes last.
        tokens = {row.key: f"{row.owner or ''}:{row.checkpoint}:{row.counter}" for row in open_rows}
        since = now - before.last if before.last is not None and beats else None
        sightings = after_look(sightings_before, tokens, since=since, tick=every)
        period = None
        if since is not None:
            period = self._renewal_period(open_rows, renewal_periods(sightings_before, tokens, since))
        after = KclLeaderMemory(now, lock_row.owner, lock_row.version, sightings, period)
        return after, self._alarm(after)

    def _renewal_period(self, rows: Sequence[Lease], periods: Mapping[str, timedelta]) -> timedelta | None:
        """The median over the leases of KCL workers. Headrace's workers beat at each tick, and so tell
        nothing about KCL's settings."""
        owners = sorted({row.owner for row in rows if row.owner is not None and row.key in periods})
        kcl_workers = not_ours(owners, self.workers.get_many(owners).workers) if owners else ()
        renewals = [periods[row.key] for row in rows if row.owner in kcl_workers and row.key in periods]
        return median_low(renewals) if renewals else None

    def _is_ours(self, worker_id: str) -> bool:
        """Whether the leader is a Headrace worker: such a worker has a row in which it beats, while a KCL
        leader without an assignment job has no row. A row that isn't understood counts as Headrace's, so that
        there is no false alarm."""
        try:
            row = self.workers.get(worker_id)
        except WrongShape:
            return True
        return row is not None and row.is_ours

    @property
    def _patience(self) -> timedelta:
        """How long a lease may stand still: until its worker counts as dead, and then for three assignments.
        KCL assigns every two failover times."""
        duration = self.times.lease_duration
        return duration + _PERIODS * max(self.times.assignment, 2 * duration)

    def _alarm(self, watch: KclLeaderMemory) -> str | None:
        still = expired(watch.leases, self._patience)
        if not still:
            return None
        return (
            f"the KCL worker {watch.leader} holds the leader's lock and beats, but "
            f"{counted(len(still), 'lease')} ({min(still)}{', ...' if len(still) > 1 else ''}) stood still "
            f"for more than {self._patience}: no worker reads these shards. No record is lost yet. "
            "Restart that KCL worker, so that another worker leads"
        )
