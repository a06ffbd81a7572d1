"""When the records of ranges arrived, as the ledgers state it, and on which of these days the retention may have
deleted rows. Pure functions on values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from headrace.pipeline.core.ledger.story import Step


@dataclass(frozen=True, slots=True)
class Window:
    """The arrival times that a proof covers. A bound that is None doesn't limit them."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_all(self) -> bool:
        return self.since is None and self.until is None

    def has(self, first: datetime | None, last: datetime | None) -> bool:
        """Whether the proof covers a range whose records arrived between these two moments. A range is always
        proved as a whole.
        """
        # A range without arrivals may have records of any time, so that it is asked for.
        if self.since is not None and last is not None and last < self.since:
            return False
        return not (self.until is not None and first is not None and first >= self.until)


ALL = Window()


@dataclass(frozen=True, slots=True)
class Days:
    """Days (UTC) of arrival whose rows a proof counts."""

    first: date = date.min
    last: date = date.max

    def has(self, day: date) -> bool:
        return self.first <= day <= self.last

    def meet(self, steps: Iterable[Step]) -> bool:
        """Whether one of the ranges may have a record that arrived on these days."""
        steps = tuple(steps)
        return min(map(first_day, steps)) <= self.last and self.first <= max(map(last_day, steps))


EVER = Days()


def may_be_dropped(step: Step, kept_from: date | None) -> bool:
    """Whether the retention may have removed records of the range, or may do so next."""
    return kept_from is not None and first_day(step) < kept_from


def first_day(step: Step) -> date:
    """The first day (UTC) on which records of the range may have arrived."""
    first = step.range.first_arrival
    return date.min if first is None else (first - APPROXIMATE).date()


def last_day(step: Step) -> date:
    """The last day (UTC) on which records of the range may have arrived."""
    last = step.range.last_arrival
    return date.max if last is None else (last + APPROXIMATE).date()


def first_kept_day(now: datetime, retention: timedelta | None, before: date | None) -> date | None:
    """The first day whose rows the retention keeps. `before`: the first kept day that the table states, or that an earlier proof
    knew; the setting may have been made longer since.
    """
    days = [before, None if retention is None else (now - retention).date()]
    # The later of the two: what a shorter retention has dropped stays dropped after it was made
    # longer.
    return max((day for day in days if day is not None), default=None)


APPROXIMATE = timedelta(minutes=1)
"""Kinesis's arrival times are approximate, and needn't grow from record to record: a statement stays this far behind
them."""
