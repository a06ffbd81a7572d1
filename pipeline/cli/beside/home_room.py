"""What `headrace dev` says while the disk of its DAGSTER_HOME is full. Without room Dagster can't note that a tick or a run
has begun, so that nothing more is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.resources.home_room import ROOM, why_no_room


@dataclass(slots=True)
class HomeRoom:
    home: Path
    say: Callable[[str], None]
    why: Callable[[Path, int], str | None] = why_no_room
    _is_full: bool = False

    def look(self) -> None:
        """Say that there is no room left, once, and that there is room again."""
        # Some more before it counts as room again: else each file that comes and goes could make two lines.
        why = self.why(self.home, 2 * ROOM if self._is_full else ROOM)
        if why is not None and not self._is_full:
            self.say(
                f"DAGSTER_HOME {self.home} is full: {why}. Once Dagster can't write there, no tick and no run begins, and "
                "nothing more lands. No landed record is touched, and Kinesis keeps the others; make room, and reading goes on"
            )
        elif why is None and self._is_full:
            self.say(f"DAGSTER_HOME {self.home} has room again")
        self._is_full = why is not None
