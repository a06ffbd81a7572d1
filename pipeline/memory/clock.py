"""Time moved by hand, and ids that count."""

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

    def advance(self, by: timedelta) -> None:
        """Time goes by."""
        if by < timedelta(0):
            raise ValueError("time goes forward; a wall clock that is set back is `jump`")
        self._now += by
        self._monotonic += by.total_seconds()

    def jump(self, by: timedelta) -> None:
        """Somebody sets the wall clock: no time goes by."""
        self._now += by


class CountingIds:
    """Same seed, same history."""

    def __init__(self, prefix: str = "id", *, seed: int = 0) -> None:
        self._prefix = prefix
        self._count = count(1)
        self._dice = random.Random(seed)

    def fresh(self) -> str:
        return f"{self._prefix}-{next(self._count)}"

    def dice(self) -> float:
        return self._dice.random()
