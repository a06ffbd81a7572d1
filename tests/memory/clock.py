"""A clock that tests move, and ids that are numbered."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class MemoryClock:
    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def pause(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))

    def advance(self, by: timedelta) -> None:
        """Let time pass, on both clocks."""
        if by < timedelta(0):
            raise ValueError("time only goes forward; use `jump` to set the wall clock back")
        self._now += by
        self._monotonic += by.total_seconds()

    def jump(self, by: timedelta) -> None:
        """Set the wall clock, without time passing."""
        self._now += by


class CountingIds:
    """Numbered ids, and random numbers by a seed: the same seed gives the same sequence."""

    def __init__(self, prefix: str = "id", *, seed: int = 0) -> None:
        self._prefix = prefix
        self._count = count(1)
        self._dice = random.Random(seed)

    def fresh(self) -> str:
        return f"{self._prefix}-{next(self._count)}"

    def dice(self) -> float:
        return self._dice.random()
