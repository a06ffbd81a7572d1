"""When the records of ranges arrived, by the ledgers, and which of their days a retention may have dropped. Pure
functions on values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from headrace.pipeline.core.ledger.story import Step


@dataclass(frozen=True, slots=True)
class Window:
    """The arrivals that a proof is about. None: without this bound."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_all(self) -> bool:
        return self.since is None and self.until is None

    def has(self, first: datetime | None, last: datetime | None) -> bool:
        """Whether records of a range that arrived between these two moments are asked for. A range is proved as a
        whole."""
        # A range without arrivals may have records of any time, so that it is asked for.
        if self.since is not None and last is not None and last < self.since:
            return False
        return not (self.until is not None and first is not None and first >= self.until)


ALL = Window()


@dataclass(frozen=True, slots=True)
class Days:
    """Arrival days (UTC) that are counted by themselves."""

    first: date = date.min
    last: date = date.max

    def has(self, day: date) -> bool:
        return self.first <= day <= self.last

    def meet(self, steps: Iterable[Step]) -> bool:
        """Whether these days may have a record of the ranges."""
        steps = tuple(steps)
        return min(map(first_day, steps)) <= self.last and self.first <= max(map(last_day, steps))


EVER = Days()


def may_be_dropped(step: Step, kept_from: date | None) -> bool:
    """Whether the retention may have removed records of the range, or removes them next."""
    return kept_from is not None and first_day(step) < kept_from


def first_day(step: Step) -> date:
    """The first day (UTC) that may have records of the range."""
    first = step.range.first_arrival
    return date.min if first is None else (first - APPROXIMATE).date()


def last_day(step: Step) -> date:
    """The last day (UTC) that may have records of the range."""
    last = step.range.last_arrival
    return date.max if last is None else (last + APPROXIMATE).date()


def first_kept_day(now: datetime, retention: timedelta | None, before: date | None) -> date | None:
    """The first day that the retention keeps. `before`: what an earlier proof knew. The retention may have been longer
    since."""
    days = [before, None if retention is None else (now - retention).date()]
    # The later of the two: what a shorter retention has dropped stays dropped after it was made
    # longer.
    return max((day for day in days if day is not None), default=None)


APPROXIMATE = timedelta(minutes=1)
"""Kinesis's arrival times are approximate, and needn't grow from record to record: a statement stays this far behind
them."""
