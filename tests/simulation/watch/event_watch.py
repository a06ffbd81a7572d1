"""The judge of typed tables that land the same event once (I38): of two rows with equal keys that arrived near each other one is there, and a
row is left out only for one that is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

from headrace.pipeline.settings.blocks.parse import UniqueSettings
from tests.memory.parse import TypedRow

if TYPE_CHECKING:
    from tests.simulation.watch.typed_watch import TypedWatch

_EVENTS = 30
_WITHOUT_KEY = 3
"""So many of these have a null in their key, and are compared with none."""


def event_of(row: TypedRow) -> Hashable | None:
    """The event of a row, which its number tells alone: a row that is parsed again is the same event."""
    kind = crc32(f"event {row.number}".encode()) % _EVENTS
    return None if kind < _WITHOUT_KEY else kind


class EventWatch:
    def __init__(self, watch: TypedWatch, unique: UniqueSettings) -> None:
        self._watch = watch
        self._within = unique.within
        self._there: dict[Hashable, list[tuple[datetime, TypedRow]]] = {}

    @property
    def leaves_out(self) -> bool:
        return self._within is not None

    def judge(self, good: Iterable[TypedRow], left_out: Iterable[TypedRow], by: str) -> None:
        """`good`: the rows that a commit adds. `left_out`: those that it counts as duplicates."""
        if self._within is None:
            return
        for row in sorted(good):
            event = event_of(row)
            if event is None:
                continue
            if near := self._near(row):
                raise self._watch.broken(f"{by}: {row} and {near[0]} are the same event", row.key)
            self._there.setdefault(event, []).append((self._arrival(row), row))
        for row in left_out:
            if not self._near(row):
                raise self._watch.broken(f"{by} leaves out {row}, and no row of its event is there", row.key)

    def _near(self, row: TypedRow) -> list[TypedRow]:
        arrival, within = self._arrival(row), self._within or timedelta()
        there = self._there.get(event_of(row), ())
        return [other for when, other in there if abs(when - arrival) <= within]

    def _arrival(self, row: TypedRow) -> datetime:
        return self._watch.arrival(row.key, row.number)
