"""The ports of time, of fresh ids and of timers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of this host's clock, in UTC."""
        # Two hosts' clocks differ, so nothing on which safety rests may go by them (docs/reference/protocol.md, section
        # 6).
        ...

    def monotonic(self) -> float:
        """Seconds since an unknown moment, for measuring durations on this host."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait for so many seconds."""
        ...


class Ids(Protocol):
    def fresh(self) -> str:
        """An id that was never given before."""
        ...

    def dice(self) -> float:
        """A random number in [0, 1)."""
        ...


Timer = Callable[[Callable[[], object], timedelta, timedelta | None], AbstractContextManager[None]]
"""While the `with` block of `timer(beat, every, at_most)` runs, `beat` is called once in each period `every`, until the
block ends or `at_most` has passed. A call that raises counts as a missed beat; the next one follows all the same."""
