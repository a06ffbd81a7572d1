"""The simulator's clock: another clock, plus the seconds by which tests have moved it."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate

Clock = Callable[[], float]

# A fixed moment for clocks that stand still, so that a failing test shows the same numbers in every run.
A_MOMENT = 1_750_000_000.0


class MovableClock:
    """Seconds since 1970 of a base clock, shifted. With a base clock that stands still, only tests move the time."""

    __slots__ = ("_base", "offset")

    def __init__(self, base: Clock = lambda: A_MOMENT) -> None:
        """Start with the base clock's time."""
        self._base = base
        self.offset = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self._base() + self.offset

    def advance(self, seconds: float) -> None:
        """Move the clock by some seconds, also backwards, as a clock that is corrected does."""
        self.offset += seconds


def http_date(seconds: float) -> str:
    """Write a moment as the Date header does."""
    return formatdate(seconds, usegmt=True)
