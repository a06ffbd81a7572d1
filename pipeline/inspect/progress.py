"""How far behind the shards are, how much is left to read, and when records will be lost: from one observation,
or from two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.core.leases.lag import LivingWorkers, open_lags, readers_among
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.findings import DEAD_AFTER
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.telling import in_words

_ALIVE_FOR: Final = timedelta(seconds=60)
"""A worker whose row is older may be dead. A living one writes it every few seconds."""
_KILO: Final = 1000


@dataclass(frozen=True, slots=True)
class ShardProgress:
    lease: str
    worker: str | None
    lag: timedelta | None
    """None where the row doesn't tell, as with KCL's workers, or with a worker that is back only just now."""
    backlog: float | None
    """Bytes, about: the lag times the rate at which the shard was read."""
    catches_up_in: timedelta | None
    loses_in: timedelta | None
    """When the oldest unread record leaves the stream; None where that isn't to be feared, or not known."""
    why: str | None
    """Why the shard fails."""
    is_kcls: bool
    """Whether no row shows that the shard's worker is one of Headrace."""

    @property
    def name(self) -> str:
        return partition_of(self.lease)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The lags of an earlier observation."""

    at: datetime
    lags: Mapping[str, timedelta | None]


def progress_of(
    observation: Observation,
    *,
    earlier: Earlier | None = None,
    retention: Mapping[str | None, timedelta] | None = None,
) -> tuple[ShardProgress, ...]:
    """The open shards; the one that is furthest behind comes first.

    `retention`: by KCL's name of the stream; an application with one stream has it under None.
    """
    now = observation.last.read_at
    readers = readers_of(observation)
    lags = open_lags(observation.open_ones, now, readers=readers)
    ours = {worker.worker_id for worker in observation.last.workers if worker.is_ours}
    every = [
        _progress(
            lease,
            lags[lease.key],
            now,
            is_read=lease.holder in readers,
            is_kcls=lease.holder is not None and lease.holder not in ours,
            earlier=earlier,
            kept=(retention or {}).get(lease.stream),
        )
        for lease in observation.open_ones
    ]
    return tuple(
        # Shards without a known lag come first: they may be further behind than all others.
        sorted(every, key=lambda shard: (shard.lag is not None, -(shard.lag or timedelta(0)), shard.name))
    )


def lags_of(observation: Observation, shards: tuple[ShardProgress, ...]) -> Earlier:
    return Earlier(observation.last.read_at, {shard.lease: shard.lag for shard in shards})


def too_far_behind(
    observation: Observation, shards: tuple[ShardProgress, ...], most: timedelta
) -> str | None:
    """A sentence about a shard that is further behind than `most`, or whose row doesn't tell how far; None where
    all are within.
    """
    table = observation.last.tables.lease_table
    late = [shard for shard in shards if shard.lag is not None and shard.lag > most]
    if late:
        of_worker = "without a worker" if late[0].worker is None else f"of worker {late[0].worker}"
        why = f": {late[0].why}" if late[0].why else ""
        return (
            f"{table}: {counted(len(late), 'shard')} more than {in_words(most)} behind; the furthest is "
            f"{late[0].name} {of_worker}, {in_words(late[0].lag or timedelta(0))} behind{why}"
        )
    untold = [shard for shard in shards if shard.lag is None]
    if untold:
        return (
            f"{table}: the rows of {counted(len(untold), 'shard')} don't tell how far behind they are ({untold[0].name}"
            f"{', ...' if len(untold) > 1 else ''}): KCL's workers don't write it, and nobody has looked into them for Headrace yet"
        )
    return None


def readers_of(observation: Observation) -> LivingWorkers:
    """The workers that may be alive: they were seen to move, or their row is recent and they weren't watched for
    long.
    """
    is_sure = is_sure_of_silence(observation)
    alive = [
        worker.worker_id
        for worker in observation.workers
        if worker.moved
        or (not (is_sure and worker.moved is False) and worker.age is not None and worker.age <= _ALIVE_FOR)
    ]
    return readers_among(alive, observation.last.workers)


def is_sure_of_silence(observation: Observation) -> bool:
    """Whether a worker that wasn't seen to move must be dead: the readings are further apart than the longest
    time between two beats of a living one.
    """
    return observation.watched is not None and observation.watched >= DEAD_AFTER


def _progress(
    lease: Lease,
    lag: timedelta | None,
    now: datetime,
    *,
    is_read: bool,
    is_kcls: bool,
    earlier: Earlier | None,
    kept: timedelta | None,
) -> ShardProgress:
    rate = lease.throughput_kbps
    before = None if earlier is None else earlier.lags.get(lease.key)
    pace = None
    if lag is not None and before is not None and earlier is not None and now > earlier.at:
        pace = (lag - before) / (now - earlier.at)
    return ShardProgress(
        lease=lease.key,
        worker=lease.holder,
        lag=lag,
        backlog=None if lag is None or rate is None else rate * _KILO * lag.total_seconds(),
        catches_up_in=lag / -pace if lag and pace is not None and pace < 0 else None,
        loses_in=_loses_in(lag, kept, pace, is_read=is_read),
        why=None if lease.failure is None else lease.failure.why,
        is_kcls=is_kcls,
    )


def _loses_in(
    lag: timedelta | None, kept: timedelta | None, pace: float | None, *, is_read: bool
) -> timedelta | None:
    """`pace`: seconds by which the lag grows in a second."""
    if not lag or kept is None:
        return None
    # Nobody reads: the oldest unread record gets older by the clock.
    growth = 1.0 if not is_read else pace
    if growth is None or growth <= 0:
        return None
    return max(timedelta(0), kept - lag) / growth
