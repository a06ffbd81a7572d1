"""Facts that only repeated readings show: since when a lock or a worker stands still, and how fast a lag grows.

Everything is counted by this host's monotonic clock. A console that has just started knows nothing yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

_BASE_AFTER: Final = 60.0
"""Seconds between two measurements of which a growth is told. Two that are closer differ by chance."""
_BASE_UNTIL: Final = 300.0


@dataclass(slots=True)
class RowStillness:
    """Remembers for each name the last state, and when that state was first seen."""

    _since: dict[str, tuple[Hashable, float]] = field(default_factory=dict)

    def look(self, states: Mapping[str, Hashable], now: float) -> None:
        self._since = {
            name: before if (before := self._since.get(name)) and before[0] == state else (state, now)
            for name, state in states.items()
        }

    def of(self, name: str, now: float) -> timedelta | None:
        """How long the state of this name has stayed the same; None for a name that was never seen."""
        seen = self._since.get(name)
        return None if seen is None else timedelta(seconds=now - seen[1])


@dataclass(slots=True)
class Growth:
    """Measures how fast lags grow, in seconds a second."""

    _bases: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Key -> the moment and the lag of an earlier look."""
    _paces: dict[str, float] = field(default_factory=dict)

    def look(self, lags: Mapping[str, float], now: float) -> None:
        self._bases = {key: base for key, base in self._bases.items() if key in lags}
        self._paces = {key: pace for key, pace in self._paces.items() if key in lags}
        for key, lag in lags.items():
            moment, before = self._bases.setdefault(key, (now, lag))
            if now - moment >= _BASE_AFTER:
                # A record grows older by the clock and no faster; a greater jump is a checkpoint that was set back.
                self._paces[key] = min((lag - before) / (now - moment), 1.0)
            if now - moment >= _BASE_UNTIL:
                self._bases[key] = (now, lag)

    def of(self, key: str) -> float | None:
        return self._paces.get(key)
