"""The cost of an application on a day: what its runs have used, and what its sensors' ticks cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from headrace.pipeline.cost.prices import Prices
from headrace.pipeline.cost.sizing import Units
from headrace.pipeline.cost.spent import Spent, costs_of, spent_together

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Day:
    date: date
    runs: Spent
    ticks: Spent
    """What the sensors have asked of DynamoDB, by the sizing formulas: no run counts it."""

    def costs(self, prices: Prices) -> dict[str, float]:
        return costs_of(self.runs, prices) | {"sensors": sum(costs_of(self.ticks, prices).values())}


def bounds_of(day: date) -> tuple[datetime, datetime]:
    """The beginning and the end of a day in UTC."""
    begin = datetime.combine(day, time(), UTC)
    return begin, begin + _DAY


def day_of(day: date, spent: Iterable[Spent], ticks: Units, *, now: datetime) -> Day:
    """The cost of a day.

    `ticks`: units a second that this deployment's sensors use. For today they are counted up to `now`.
    """
    begin, end = bounds_of(day)
    seconds = max(timedelta(0), min(end, now) - begin).total_seconds()
    # By formulas, since ticks leave no event: 17,000 a day would cost Dagster's storage more than
    # they tell.
    asked = Spent(read_units=ticks.reads * seconds, write_units=ticks.writes * seconds, runs=0)
    return Day(day, spent_together(spent), asked)
