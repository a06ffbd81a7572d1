"""On which days the records of a window arrived, by the ledgers. Each file of a table has the rows of one day, so that
a window of an hour needn't look into the files of a year. Pure functions on values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE, EVER, Days
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.typed.values import SourceFile
from headrace.pipeline.windows.make import has_part_of
from headrace.pipeline.windows.window import ReplayWindow


def days_of(window: ReplayWindow, story: Story) -> Days:
    """The days on which records of the window arrived.

    `story`: the ledgers of the lake table about the window's shards. All days, where the ledgers don't tell when
    each row arrived.
    """
    ranges = [
        step.range
        for planned in window.ranges
        for step in story.of(planned.key)
        if has_part_of(planned, step)
    ]
    with_rows = [recorded for recorded in ranges if recorded.rows]
    first = [recorded.first_arrival for recorded in with_rows if recorded.first_arrival is not None]
    last = [recorded.last_arrival for recorded in with_rows if recorded.last_arrival is not None]
    is_told = with_rows and len(first) == len(last) == len(with_rows)
    # Rows that were derived from the table, or whose ledger is lost, may have arrived at any time. So may rows up to a
    # position that a person or a repair has set: the ranges tell nothing of them.
    if story.lost or not is_told or any(recorded.may_go_back for recorded in ranges):
        return EVER
    return Days((min(first) - APPROXIMATE).date(), (max(last) + APPROXIMATE).date())


def within(files: Iterable[SourceFile], days: Days) -> tuple[SourceFile, ...]:
    """The files that may have rows of these days."""
    # A file that isn't of one day, as another engine may have written it, may have rows of any day.
    return tuple(file for file in files if file.day is None or days.has(date.fromisoformat(file.day)))
