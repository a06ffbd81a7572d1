"""Which shards are due to be read, and whether a run lives. Decided from lease rows alone, without loading the lake
table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headrace.pipeline.core.leases.lease import Lease, run_of_claim
from headrace.pipeline.core.leases.sighting import Sighting


def is_time(last: datetime | None, now: datetime, *, every: timedelta) -> bool:
    """Whether work that is done once in `every` is due again."""
    # A clock that was set back makes the work due at once: it is better done once too often than not for a long time.
    return last is None or not timedelta(0) <= now - last < every


class RunState(StrEnum):
    """The state of a run as Dagster has it."""

    UNKNOWN = "unknown"
    """This Dagster has no run with this id: another deployment started it, or it is `headrace consume`."""
    WAITING = "waiting"
    """Queued or starting."""
    STARTED = "started"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    state: RunState
    started: timedelta | None = None
    """How long ago the run started."""


@dataclass(frozen=True, slots=True)
class LivenessTimes:
    """The settings from `times:` by which a run is judged."""

    lease_duration: timedelta
    launch_grace: timedelta


def run_lives(verdict: RunVerdict, beats: Iterable[Sighting | None], times: LivenessTimes) -> bool:
    """Whether a run counts as alive. Until `launch_grace` after its start Dagster's answer decides, later the run's own
    beats.

    Dagster's answer alone isn't enough: a run whose host died may stay 'started' in Dagster for ever. A run that
    Dagster doesn't know is judged by its beats alone.
    """
    if verdict.state is RunState.OVER:
        return False
    if verdict.state is RunState.WAITING:
        return True
    # Where a clock was set back, the run seems to start in the future. Then the grace would last too long, so beats
    # decide.
    if verdict.started is not None and timedelta(0) <= verdict.started < times.launch_grace:
        return True
    return any(beat is not None and beat.credit <= times.lease_duration for beat in beats)


@dataclass(frozen=True, slots=True)
class Due:
    lease_key: str
    why: str


@dataclass(frozen=True, slots=True)
class DuePlan:
    due: tuple[Due, ...]
    idle: tuple[Lease, ...]
    """Rows of shards that aren't due by what the row says. A probe may still find a new record."""
    being_read: int = 0
    """The number of shards that a living run reads."""
    waiting: int = 0
    """The number of shards that wait for their parents or for a handover."""
    ended: int = 0


def one_plan(plans: Iterable[DuePlan]) -> DuePlan:
    """The plans of several streams, merged into one."""
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
    """Sort the leases of one stream into due, idle, being read, waiting and ended.

    `parents`: shard id -> row of the parent; a parent without a row blocks no shard here. `living_claims`: claims
    of runs that count as alive. `look_again_after`: a quarter of the retention, after which a shard is read even
    if nothing shows that it has records; a run that reads so late commits that it looked.
    """
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
    """Whether a parent's row says that the parent hasn't ended yet."""
    # Only a hint that saves runs: each run asks again, and the commit decides (`headrace.pipeline.core.order.parents`).
    # A shard that was read before began after its parents.
    if lease.looked_at is not None or lease.landed is not None:
        return False
    return any(p in parents and not parents[p].has_ended for p in lease.parents)


def _why_due(lease: Lease, now: datetime, look_again_after: timedelta) -> str | None:
    if lease.run_claim is not None:
        return f"run {run_of_claim(lease.run_claim)} has ended and left its claim in the row"
    if lease.looked_at is None:
        return "never read"
    if lease.failure is not None:
        return "the shard failed when it was last read"
    if lease.behind_ms:
        return f"{lease.behind_ms} ms behind"
    if lease.has_foreign_checkpoint:
        # A probe asks for records after the checkpoint's. The rest of an aggregate is in that record itself.
        return "another program wrote its checkpoint, which may be inside an aggregate"
    # `looked_at` is by Kinesis's clock, `now` by this host's. The absolute value also catches a host clock that is far
    # behind.
    if abs(now - lease.looked_at) > look_again_after:
        return "nobody has looked into the shard for a quarter of the retention"
    return None
