"""How far each shard is behind its stream's tip, and when it would lose records. Pure functions on values.

A shard that was read to its tip isn't behind, however long ago that was, as long as its worker may be alive: the
worker's sensor asks for a run once a new record is there. Of a shard whose worker is dead nobody knows what came
since it was read last. Its lag is the age of its oldest unread record at most. The lag of a shard that nobody has
read yet, or into which nobody can have looked since its worker is back, isn't known, which is different from no
lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.checking.look import CheckLook
from headrace.pipeline.core.leases.lag import LongestLag, longest, open_lags
from headrace.pipeline.core.shards.partition import read_name

_NO_LAG = timedelta(0)


@dataclass(frozen=True, slots=True)
class Lag:
    at: datetime
    """When it was looked at."""
    lag: timedelta | None
    """None: it isn't known."""


@dataclass(frozen=True, slots=True)
class Risk:
    lease_key: str
    lag: timedelta
    loses_in: timedelta
    """Until Kinesis removes the first unread record, if the shard goes on as now. Zero: it may have begun."""


def lags(look: CheckLook) -> dict[str, Lag]:
    """How old the oldest record of each open shard may be that hasn't landed yet, by lease key."""
    by_key = open_lags(look.leases, look.at, readers=look.readers, waiting_since=look.waiting)
    return {key: Lag(look.at, lag) for key, lag in by_key.items()}


def longest_lag(look: CheckLook) -> LongestLag:
    return longest(shard.lag for shard in lags(look).values())


def risks(look: CheckLook, before: Mapping[str, Lag]) -> tuple[Risk, ...]:
    """The shards that fall behind, each with the time until it loses records; the nearest loss first. `before`:
    the lags that an earlier look found.
    """
    risks_of_shards = []
    for key, lag_now in lags(look).items():
        retention = look.retention.get(stream_of(key))
        if retention is None or not lag_now.lag:
            continue
        rate = _rate(before.get(key), lag_now.at, lag_now.lag)
        time_left = max(retention - lag_now.lag, _NO_LAG)
        if rate > 0:
            risks_of_shards.append(Risk(key, lag_now.lag, time_left / rate))
    return tuple(sorted(risks_of_shards, key=lambda risk: risk.loses_in))


def _rate(before: Lag | None, at: datetime, lag: timedelta) -> float:
    """Seconds by which the lag grows in a second. A shard that isn't read grows by one; a first look takes that for
    granted, because the rate isn't known yet."""
    if before is None or before.lag is None or at <= before.at:
        return 1.0
    return (lag - before.lag) / (at - before.at)


def stream_of(lease_key: str) -> str:
    """The name of the stream in the lease key; empty where the application has a single stream."""
    return read_name(lease_key).stream or ""
