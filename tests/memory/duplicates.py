"""Which rows of a wave are the same events as others, as Spark's tasks find it out: in memory, and by the product's own rule."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.duplicates_plan import Comparison, KeptOfKey

if TYPE_CHECKING:
    from tests.memory.parse import TypedRow

EventOf = Callable[["TypedRow"], Hashable | None]
"""The values of a row's key columns; None where one of them is null."""
ArrivalOf = Callable[[ShardKey, int], datetime | None]
_MICROSECOND = timedelta(microseconds=1)
_START = datetime.min.replace(tzinfo=UTC)


def duplicates_of(
    fresh: Iterable[TypedRow],
    earlier: Iterable[TypedRow],
    comparison: Comparison,
    *,
    event_of: EventOf,
    arrival_of: ArrivalOf,
) -> frozenset[tuple[ShardKey, int]]:
    """The rows of the wave that are left out. `fresh`: those that were parsed. `earlier`: those of the files that they are compared with."""
    of_event: dict[Hashable, KeptOfKey] = {}

    def timed(rows: Iterable[TypedRow]) -> list[tuple[datetime, TypedRow, Hashable]]:
        known = ((arrival_of(row.key, row.number), row, event_of(row)) for row in rows)
        return sorted(
            (arrival, row, event)
            for arrival, row, event in known
            if arrival is not None and event is not None
        )

    def kept(event: Hashable) -> KeptOfKey:
        return of_event.setdefault(event, KeptOfKey(comparison.within // _MICROSECOND))

    for arrival, _, event in timed(earlier):
        if comparison.since <= arrival <= comparison.until:
            kept(event).there.append(_units(arrival))
    return frozenset(
        row[:2] for arrival, row, event in timed(fresh) if not kept(event).offer(_units(arrival))
    )


def _units(arrival: datetime) -> int:
    return (arrival - _START) // _MICROSECOND
