"""Shards that keep failing are tried more and more rarely, so that they don't keep runs red for the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

_FIRST = timedelta(seconds=15)
_LONGEST = timedelta(minutes=10)
_PASSING = timedelta(minutes=1)
"""Trouble that a whole run had says nothing about its shards: once it is over they are not to wait for long."""


@dataclass(frozen=True, slots=True)
class Backoff:
    failures: int
    until: datetime


def after_run(
    before: Mapping[str, Backoff],
    failed: Iterable[str],
    now: datetime,
    *,
    left_alone: Iterable[str] = (),
    passing: bool = False,
) -> dict[str, Backoff]:
    """The first failure is tried again at once, then after 15 s, 30 s, ... 10 min; one success forgets it all.

    A run that left a shard alone says nothing about it. `passing`: it was the whole run's trouble, and transient.
    """
    kept = {key: before[key] for key in left_alone if key in before}
    longest = _PASSING if passing else _LONGEST
    return kept | {key: _more(before.get(key), now, longest) for key in failed}


def _more(before: Backoff | None, now: datetime, longest: timedelta) -> Backoff:
    if before is None:
        return Backoff(1, now)
    wait = min(_FIRST * 2 ** min(before.failures - 1, 10), longest)
    return Backoff(before.failures + 1, now + wait)


def held_off(backoff: Mapping[str, Backoff], now: datetime) -> frozenset[str]:
    """A wait beyond the longest is a clock that was set back: it holds nothing off."""
    return frozenset(key for key, wait in backoff.items() if now < wait.until <= now + _LONGEST)
