"""KCL's periods and pauses: how often its workers perform their duties, and how long they wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.kcl.metrics import ALPHA, ema

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often a worker performs its duties."""

    renew: timedelta
    take: timedelta
    """Used by KCL 2.x only."""
    discover: timedelta
    """How often a worker looks for leases that were assigned to it; used by KCL 3.x only."""


def intervals(
    failover: timedelta = timedelta(seconds=10),
    assignment: timedelta | None = None,
    *,
    epsilon: timedelta = timedelta(milliseconds=25),
) -> Intervals:
    """The intervals in whole milliseconds; divisions are rounded down. `assignment` defaults to two failover times."""
    every = 2 * failover if assignment is None else assignment
    return Intervals(
        renew=_whole(failover / 3) - epsilon,
        take=(failover + epsilon) * 2,
        discover=_whole(every / 2) - epsilon,
    )


def _whole(duration: timedelta) -> timedelta:
    return duration // _MS * _MS


def pause_before_call(
    elapsed: timedelta | None,
    idle: timedelta,
    *,
    behind: timedelta | None = None,
    threshold: timedelta | None = None,
) -> timedelta:
    """The pause before the next GetRecords. `elapsed`: since the last one that succeeded; None if there was none.

    `threshold` (millisBehindLatestThresholdForReducedTps): a reader that is less behind than this reads more slowly.
    """
    if elapsed is None:
        return idle
    since = abs(elapsed)  # if the clock was set back, the reader must not stop
    pause = max(timedelta(0), idle - since)
    if behind is not None and threshold is not None and behind < threshold:
        pause = max(pause, threshold - since)
    return pause


def throughput_kbps(read: Iterable[int], period: timedelta, *, previous: float | None = None) -> float | None:
    """What a renewal writes as throughputKBps: payload bytes read since the last one, smoothed.

    None before any record. KCL gives a new owner the stored value as the bytes of one second, so that a lease seems to have a third of its throughput after each move (10 becomes 3.02 at default settings). Headrace goes on from the stored value.
    """
    sizes = tuple(read)
    if not sizes and previous is None:
        return None
    now = sum(sizes) / 1024 / period.total_seconds()
    return now if previous is None else ema((previous, now), ALPHA)
