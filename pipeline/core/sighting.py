"""Expiry as seen by ticks that remember almost nothing.

Nobody's clock is compared with anybody else's. A watcher remembers for each suspect the counter that it saw
and a credit; each successful look at an unchanged counter adds the time since the last look, but never more
than one and a half ticks, so that a jump of the clock or a long silence of the watcher condemns nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class Sighting:
    token: str
    """The counter as it was last seen, as text: cursors are text."""
    credit: timedelta = timedelta(0)
    moved: bool = False
    """Whether it was ever seen to change: a row that only lies there is no proof of life."""


Sightings = Mapping[str, Sighting]


def look(
    before: Sightings, found: Mapping[str, str], *, since: timedelta | None, tick: timedelta
) -> dict[str, Sighting]:
    """What is remembered after this look. `since` is the time since the last one, None when it's the first."""
    added = timedelta(0) if since is None else min(max(since, timedelta(0)), tick + tick / 2)
    return {name: _one(before.get(name), token, added) for name, token in found.items()}


def _one(before: Sighting | None, token: str, added: timedelta) -> Sighting:
    if before is None:
        return Sighting(token)
    if before.token != token:
        return Sighting(token, moved=True)
    return Sighting(token, before.credit + added, before.moved)


def expired(sightings: Sightings, after: timedelta) -> frozenset[str]:
    return frozenset(name for name, seen in sightings.items() if seen.credit > after)


def living(sightings: Sightings, within: timedelta) -> frozenset[str]:
    """Those that were seen to move and haven't stood still for long since."""
    return frozenset(name for name, seen in sightings.items() if seen.moved and seen.credit <= within)


def to_cursor(sightings: Sightings) -> dict[str, list[str | int]]:
    """Small enough for a sensor's cursor: counters, milliseconds and a flag."""
    return {
        name: [seen.token, seen.credit // timedelta(milliseconds=1), int(seen.moved)]
        for name, seen in sightings.items()
    }


def from_cursor(rows: Mapping[str, Iterable[str | int]]) -> dict[str, Sighting]:
    found = {}
    for name, row in rows.items():
        token, credit, moved = row
        found[name] = Sighting(str(token), timedelta(milliseconds=int(credit)), moved=bool(moved))
    return found


FEW: Final = 25
"""Sightings. Dagster copies a cursor into the row of every tick."""


def suspects_to_cursor(seen: Sightings) -> dict[str, list[str | int]]:
    """Those that stood still for the longest: they are nearest to a verdict, and the others begin anew after a reload."""
    nearest = sorted(seen, key=lambda name: (-seen[name].credit, name))[:FEW]
    return to_cursor({name: seen[name] for name in nearest})


def time_to_cursor(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def time_from_cursor(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
