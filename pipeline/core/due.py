"""Is a shard being read, and is it due to be read? Decided from lease rows, no table is loaded for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pipeline.core.lease import Lease, run_of_claim
from pipeline.core.sighting import Sighting


def is_time(last: datetime | None, now: datetime, *, every: timedelta) -> bool:
    """Whether what is done every so often is due again. A clock that went back makes it due: better once too often."""
    return last is None or not timedelta(0) <= now - last < every


class RunState(StrEnum):
    """Dagster's word on a run, as far as it matters here."""

    UNKNOWN = "unknown"
    """Not this Dagster instance's run: another deployment, or `headrace consume`."""
    WAITING = "waiting"
    """Queued or starting."""
    STARTED = "started"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    state: RunState
    started: timedelta | None = None
    """How long ago it started."""


@dataclass(frozen=True, slots=True)
class LivenessTimes:
    """The settings that this decision needs."""

    lease_duration: timedelta
    launch_grace: timedelta


def run_lives(verdict: RunVerdict, beats: Iterable[Sighting | None], patience: LivenessTimes) -> bool:
    """Dagster's word decides until a run has started; from then on its own beats do, after a grace.

    A run whose host is gone may stay 'started' for ever in Dagster: it stops beating. A run that Dagster doesn't
    know is judged by its beat alone.
    """
    if verdict.state is RunState.OVER:
        return False
    if verdict.state is RunState.WAITING:
        return True
    # A run that starts in the future has a host whose clock was set back: its beats decide.
    if verdict.started is not None and timedelta(0) <= verdict.started < patience.launch_grace:
        return True
    return any(beat is not None and beat.credit <= patience.lease_duration for beat in beats)


@dataclass(frozen=True, slots=True)
class Due:
    lease_key: str
    why: str


@dataclass(frozen=True, slots=True)
class DuePlan:
    due: tuple[Due, ...]
    idle: tuple[Lease, ...]
    """Nothing speaks for reading these but a probe could."""
    being_read: int = 0
    waiting: int = 0
    """Their parents come first, or a handover does."""
    ended: int = 0


def together(plans: Iterable[DuePlan]) -> DuePlan:
    """Of several streams, one."""
    plans = tuple(plans)
    return DuePlan(
        tuple(sorted((due for plan in plans for due in plan.due), key=lambda due: due.lease_key)),
        tuple(sorted((row for plan in plans for row in plan.idle), key=lambda row: row.key)),
        being_read=sum(plan.being_read for plan in plans),
        waiting=sum(plan.waiting for plan in plans),
        ended=sum(plan.ended for plan in plans),
    )


def plan_due(
    leases: Iterable[Lease],
    *,
    me: str,
    parents: Mapping[str, Lease],
    living_claims: frozenset[str],
    now: datetime,
    look_again_after: timedelta,
) -> DuePlan:
    """Of the leases of one stream. `parents`: rows of parents by shard id (an absent row doesn't block). `look_again_after`: a quarter of the
    retention, so that the run commits what it saw."""
    due: list[Due] = []
    idle: list[Lease] = []
    being_read = waiting = ended = 0
    for lease in sorted(leases, key=lambda row: row.key):
        if lease.has_ended:
            ended += 1
        elif lease.run_claim in living_claims:
            being_read += 1
        elif lease.holder != me or lease.checkpoint_owner is not None or _is_blocked(lease, parents):
            waiting += 1
        elif (why := _why_due(lease, now, look_again_after)) is not None:
            due.append(Due(lease.key, why))
        else:
            idle.append(lease)
    return DuePlan(tuple(due), tuple(idle), being_read=being_read, waiting=waiting, ended=ended)


def _is_blocked(lease: Lease, parents: Mapping[str, Lease]) -> bool:
    """A shard that was read before has its parents behind it: only new ones look."""
    if lease.looked_at is not None or lease.landed is not None:
        return False
    return any(p in parents and not parents[p].has_ended for p in lease.parents)


def _why_due(lease: Lease, now: datetime, look_again_after: timedelta) -> str | None:
    if lease.run_claim is not None:
        return f"run {run_of_claim(lease.run_claim)} left it behind"
    if lease.looked_at is None:
        return "never read"
    if lease.failure is not None:
        return "it failed when last read"
    if lease.behind_ms:
        return f"{lease.behind_ms} ms behind"
    # By Kinesis's clock: a host's that is far behind it makes it due, too. Better once too often.
    if abs(now - lease.looked_at) > look_again_after:
        return "not looked at for a quarter of the retention"
    return None
