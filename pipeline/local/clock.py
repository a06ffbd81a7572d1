"""The simulator's time: somebody else's clock plus what tests moved it by."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate

Clock = Callable[[], float]

# A round moment for clocks that stand still: failures then show the same numbers in every run.
A_MOMENT = 1_750_000_000.0


class MovableClock:
    """Epoch seconds of a base clock, shifted. A standing base makes a clock that only tests move."""

    __slots__ = ("_base", "offset")

    def __init__(self, base: Clock = lambda: A_MOMENT) -> None:
        """Begin in step with the base."""
        self._base = base
        self.offset = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self._base() + self.offset

    def advance(self, seconds: float) -> None:
        """Move by some seconds; backwards too, as a clock that is set right does."""
        self.offset += seconds


def http_date(now: float) -> str:
    """Spell a moment as the Date header does."""
    return formatdate(now, usegmt=True)
