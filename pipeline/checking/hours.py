"""Which hours of the lake table are complete, for Dagster, which is told of each complete hour once. Pure
functions on values.

An hour is complete once the table states that it has all records that arrived before the hour's end. Records come
into a complete hour only where a person moves a position (`headrace reposition`, `repair`): then the statement is
withdrawn, and once it is back, each hour into which such records may have come is told again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

HOUR = timedelta(hours=1)
MOST = 200
"""Hours that are told in one tick; the next tick goes on."""


@dataclass(frozen=True, slots=True)
class HoursTold:
    upto: datetime
    """The end of the last hour that was told; the beginning of the first one where none was."""
    moved: int = 0
    """The sequence number of the newest snapshot, of those that were taken into account, that moved a position by a
    person's decision."""


def hours_to_tell(
    told: HoursTold, *, since: datetime, through: datetime | None, moved: int, oldest: datetime
) -> tuple[HoursTold, tuple[datetime, ...]]:
    """The beginnings of the complete hours that Dagster has to be told of now. `since`: the beginning of the
    first hour of all. `through`: up to when the table has all records; None where it doesn't say so. `moved`: the
    newest snapshot that moved a position. `oldest`: no record that arrived before this can come from Kinesis any
    more.
    """
    if through is None:
        return told, ()
    upto = told.upto
    if moved > told.moved:
        upto = min(upto, floor(oldest))
    # The table was rolled back: what was complete isn't any more.
    upto = max(min(upto, floor(through)), floor(since))
    count = min(max((through - upto) // HOUR, 0), MOST)
    hours = tuple(upto + n * HOUR for n in range(count))
    return replace(told, upto=upto + count * HOUR, moved=max(moved, told.moved)), hours


def floor(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
