"""KCL's periods and pauses: how often its workers do what, and how long they wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from pipeline.kcl.metrics import ALPHA, ema

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Intervals:
    renew: timedelta
    take: timedelta
    """2.x only."""
    discover: timedelta
    """3.x only: how often a worker looks for leases that were assigned to it."""


def intervals(
    failover: timedelta = timedelta(seconds=10),
    assignment: timedelta | None = None,
    *,
    epsilon: timedelta = timedelta(milliseconds=25),
) -> Intervals:
    """In whole milliseconds, rounded down where they are divided. `assignment` defaults to two failover times."""
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
    """Before the next GetRecords. `elapsed` since the last that succeeded; None: there was none.

    `threshold` (millisBehindLatestThresholdForReducedTps) slows a reader down that is less than that behind.
    """
    if elapsed is None:
        return idle
    since = abs(elapsed)  # a clock that was set back must not stop the reader
    pause = max(timedelta(0), idle - since)
    if behind is not None and threshold is not None and behind < threshold:
        pause = max(pause, threshold - since)
    return pause


def throughput_kbps(read: Iterable[int], period: timedelta, *, previous: float | None = None) -> float | None:
    """What a renewal writes as throughputKBps: payload bytes read since the last one, smoothed.

    None before any record. KCL feeds a new owner the stored value as one second's bytes, so that a lease looks a
    third as heavy after each move (10 becomes 3.02 at default settings); ours goes on from the stored value.
    """
    sizes = tuple(read)
    if not sizes and previous is None:
        return None
    now = sum(sizes) / 1024 / period.total_seconds()
    return now if previous is None else ema((previous, now), ALPHA)
