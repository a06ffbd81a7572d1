"""Which rows of a typed table are duplicates: a row of the same event, by the values of its key columns, is in the
table already.

Two rows are the same event where their key columns have equal values, none of them null, and Kinesis received
them at most a window apart. Of such rows the first one stays. A later row is only compared with rows that stay,
never with one that was left out. So two rows that stay and have equal key columns always arrived further apart
than the window.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.typed.values import SourceFile, WavePlan


@dataclass(slots=True)
class KeptOfKey:
    """The arrival times of those rows of one key that stay, as whole numbers of one unit of time. First `there`
    gets those of the table, then the wave's rows are offered, both in the order of their arrival.
    """

    within: int
    # Eight bytes an arrival, where a list of Python's numbers takes some forty: a key may have many rows.
    there: array[int] = field(default_factory=lambda: array("q"))
    _last: int | None = None
    """The arrival of the newest row of the wave that stays."""

    def offer(self, arrival: int) -> bool:
        """Whether a row of the wave that arrived at `arrival` stays: no row of its key in the table, and none of
        the wave that stays, arrived within `within` of it.
        """
        if self._last is not None and arrival - self._last <= self.within:
            return False
        # The table may also have rows that arrived later: of a shard that was parsed earlier.
        place = bisect_left(self.there, arrival - self.within)
        if place < len(self.there) and self.there[place] - arrival <= self.within:
            return False
        self._last = arrival
        return True


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows of the typed table that the rows of a wave are compared with."""

    files: tuple[SourceFile, ...]
    """The data files that may have some. Each row group is read without payloads."""
    since: datetime
    until: datetime
    """Rows that arrived earlier or later are too far from all rows of the wave."""
    within: timedelta
    positions: Positions
    """The typed table's positions: a commit may land only where they are the same."""

    @property
    def rows(self) -> int:
        """How many rows the comparison reads at most."""
        return sum(file.rows for file in self.files)


def plan_comparison(
    files: Iterable[SourceFile], positions: Positions, wave: WavePlan, *, within: timedelta
) -> Comparison | None:
    """Which rows of the typed table have to be compared with the rows of the wave. None where no row of the wave
    has an arrival time. `files` and `positions` are of one snapshot of the typed table.
    """
    oldest = min((planned.oldest for planned in wave.ranges if planned.oldest is not None), default=None)
    newest = max((planned.newest for planned in wave.ranges if planned.newest is not None), default=None)
    if oldest is None or newest is None:
        return None
    since, until = oldest - within, newest + within
    near = (
        file
        for file in files
        if (file.oldest is None or file.oldest <= until) and (file.newest is None or file.newest >= since)
    )
    return Comparison(tuple(near), since, until, within, positions)
