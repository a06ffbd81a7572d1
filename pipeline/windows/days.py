"""On which days the records of a window arrived, by the ledgers. Each file of a table has the rows of one day, so that a window of an hour needn't
look into the files of a year. Pure functions on values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE, EVER, Days
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.typed.values import SourceFile
from headrace.pipeline.windows.make import has_part_of
from headrace.pipeline.windows.window import ReplayWindow


def days_of(window: ReplayWindow, story: Story) -> Days:
    """`story`: the ledgers of the lake table about the window's shards. All days where they don't tell of each row."""
    ranges = [step.range for each in window.ranges for step in story.of(each.key) if has_part_of(each, step)]
    with_rows = [each for each in ranges if each.rows]
    first = [each.first_arrival for each in with_rows if each.first_arrival is not None]
    last = [each.last_arrival for each in with_rows if each.last_arrival is not None]
    is_told = with_rows and len(first) == len(last) == len(with_rows)
    # Rows that were derived from the table, or whose ledger is lost, may have arrived at any time. So may rows up to a position that a person or a
    # repair has set: the ranges tell nothing of them.
    if story.lost or not is_told or any(each.may_go_back for each in ranges):
        return EVER
    return Days((min(first) - APPROXIMATE).date(), (max(last) + APPROXIMATE).date())


def within(files: Iterable[SourceFile], days: Days) -> tuple[SourceFile, ...]:
    """The files that may have rows of these days."""
    return tuple(each for each in files if each.day is None or days.has(date.fromisoformat(each.day)))
