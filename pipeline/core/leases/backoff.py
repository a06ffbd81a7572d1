"""Shards that fail again and again are read at growing intervals, so that not every run fails for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

_FIRST = timedelta(seconds=15)
_LONGEST = timedelta(minutes=10)
"""A repaired shard is read again after at most this time, without anybody telling Headrace."""
_LONGEST_TRANSIENT = timedelta(minutes=1)
"""The longest wait after an error that ended a whole run, such as a throttled table: its shards may be healthy."""

ALL_SHARDS = ""
"""Stands for each shard of a worker whose run ended before it had begun. The names of all would be a long text in the row of
each tick."""


@dataclass(frozen=True, slots=True)
class Backoff:
    failures: int
    until: datetime


def after_run(
    before: Mapping[str, Backoff],
    failed: Iterable[str],
    when: datetime,
    *,
    left_alone: Iterable[str] = (),
    transient: bool = False,
) -> dict[str, Backoff]:
    """How long each shard is left alone after a run. A shard is tried again at once after its first failure, then after 15 s, 30 s, ...
    10 min. A success removes the shard's wait. `when`: the moment from which waits count. `left_alone`: shards that
    the run was asked not to read, whose waits stay. `transient`: a transient error ended the run as a whole.
    """
    waits = {key: before[key] for key in left_alone if key in before}
    longest = _LONGEST_TRANSIENT if transient else _LONGEST
    return waits | {key: _more(before.get(key), when, longest) for key in failed}


def _more(before: Backoff | None, when: datetime, longest: timedelta) -> Backoff:
    if before is None:
        return Backoff(1, when)
    # The bound on the exponent keeps the timedelta from overflowing after very many failures.
    wait = min(_FIRST * 2 ** min(before.failures - 1, 10), longest)
    return Backoff(before.failures + 1, when + wait)


def until_next_try(waits: Mapping[str, Backoff], now: datetime) -> timedelta | None:
    """After which time the first of these shards may be tried again: one that is held off once its wait is over, and one that is tried now,
    should it fail once more, after the wait that this failure adds. None where no shard has failed."""
    held = held_off(waits, now)
    ends = (
        wait.until if key in held else _more(wait, now, _LONGEST).until
        for key, wait in waits.items()
        if key != ALL_SHARDS
    )
    return min((end - now for end in ends), default=None)


def of_clock(
    backoff: Mapping[str, Backoff], now: datetime, *, last_look: datetime | None
) -> Mapping[str, Backoff]:
    """The waits by this host's clock. Where it was set back since the last look, nothing tells how far: the waits are over, because a
    shard is better read once too often than not for a long time."""
    if last_look is None or now >= last_look:
        return backoff
    return {key: replace(wait, until=min(wait.until, now)) for key, wait in backoff.items()}


def held_off(backoff: Mapping[str, Backoff], now: datetime) -> frozenset[str]:
    """The shards that aren't to be read yet, after their failures."""
    # A wait longer than the longest was made before this host's clock was set back. It would last too long, so it is
    # ignored.
    return frozenset(key for key, wait in backoff.items() if now < wait.until <= now + _LONGEST)
