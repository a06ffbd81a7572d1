"""When something that goes on is told of again: at distances that grow, so that it doesn't push everything else out of the terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

_FIRST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(hours=1)


@dataclass(slots=True)
class Reminders:
    since: datetime
    """When it was told of first."""
    _due: datetime = field(init=False)
    _distance: timedelta = _FIRST

    def __post_init__(self) -> None:
        self._due = self.since + _FIRST

    def is_due(self, now: datetime) -> bool:
        """Whether to tell of it again now. If so, the next time is further away."""
        if now < self._due:
            return False
        self._distance = min(2 * self._distance, _LONGEST)
        self._due = now + self._distance
        return True
