"""Counts and compares the rows of a proof's subject: only new ones, those of a time, or all of them in rounds of
a few arrival days.

    plan: which rows are counted -> the files that may have them -> counts, on Spark -> what the rows say
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from headrace.pipeline.core.ledger.arrivals import ALL, EVER, Days, Window
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.live_files import LiveFiles
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.proof.counts import changed_days
from headrace.pipeline.proof.evidence import Compared, all_rounds
from headrace.pipeline.proof.memory import files_of_days
from headrace.pipeline.proof.rounds import (
    Open,
    arrivals_on,
    divided,
    files_of,
    joined_again,
    ranges_one_by_one,
    rounds_of,
)
from headrace.pipeline.proof.sides import Side, Sides, late_steps, may_skip
from headrace.pipeline.proof.spans import CountPlan, FileCount, plan_rows
from headrace.pipeline.proof.subject import ProofReading, Subject


def new_rows(subject: Subject) -> ProofReading | None:
    """Read the rows that came after an earlier proof. None where all rows have to be read: there was no such
    proof, main has another history since, a person moved a position back, or files were replaced by others with
    other records.
    """
    if any(side.before is None for side in subject.sides):
        return None
    sides = tuple(side.since_proved() for side in subject.sides)
    if not may_skip(sides, subject.apart):
        return None
    proved = next(side.before.sequence for side in sides if side.before is not None)
    view = subject.view(sides, sides[0].look.story)
    plan = plan_rows(view, window=ALL, proved=proved, kept_from=subject.kept_from)
    # Old and new ranges overlap: only all of their rows together can be compared.
    if plan.is_mixed:
        return None
    read_sides: list[Side] = []
    for side in sides:
        read_before = {} if side.before is None else side.before.files
        files = side.look.live.files
        counts = side.ports.rows.count([file for file in files if file.path not in read_before], plan.spans)
        live = frozenset(file.path for file in files)
        # Files of a day were replaced. Where their records are the same, the sums of the day stay as they were.
        if changed_days(read_before, counts, live=live, kept_from=side.kept_from):
            return None
        unchanged = side.ports.rows.look_again([file for file in files if file.path in read_before])
        read_sides.append(side.counted(counts, unchanged))
    return replace(_compared(subject, plan, tuple(read_sides)), is_new=True)


def window_rows(subject: Subject, window: Window) -> ProofReading:
    """Read the rows of the ranges within the window, all at once."""
    sides = tuple(side.read() for side in subject.sides)
    view = subject.view(sides, sides[0].look.story)
    plan = plan_rows(view, window=window, kept_from=subject.kept_from)
    read_sides = []
    for side in sides:
        # Rows that are in no range may be in any file.
        files = side.look.live.files if window.is_all else files_of_days(plan, side.look.live)
        read_sides.append(side.counted(side.ports.rows.count(files, plan.spans)))
    is_whole = window.is_all and not late_steps(sides)[0]
    return replace(_compared(subject, plan, tuple(read_sides)), is_whole=is_whole)


def _compared(subject: Subject, plan: CountPlan, sides: Sides) -> ProofReading:
    source = subject.source(plan)
    counts = (*source, *(side.look.counts for side in sides))
    return ProofReading(
        sides=sides,
        compared=all_rounds([subject.compared(sides, plan, counts)]),
        source=tuple(_without_parts(source)),
    )


def all_rows(subject: Subject) -> ProofReading | None:
    """Read all rows in rounds, because the ranges of a long history don't fit into memory unless they are joined.
    None where each range has to be compared by itself.
    """
    sides = tuple(side.joined(subject.most_ranges) for side in subject.sides)
    # Before any row is read, because then all is read in another way.
    if subject.needs_each_range(sides):
        return None
    files = [file for side in sides for file in side.look.live.files]
    has_days = all(file.day is not None for file in files)
    days = rounds_of(sides[0].look.story, subject.most_ranges) if has_days else (EVER,)
    try:
        reading = _Rounds(subject, sides).read(days)
    except _OtherDayError:
        # All days at once: then no row is on another day.
        reading = _Rounds(subject, sides).read((EVER,))
    return replace(reading, is_whole=not late_steps(sides)[0])


class _OtherDayError(Exception):
    """A file has rows of ranges that tell of other days: all days have to be counted at once."""


class _Rounds:
    """One round after the other, of each of which only the counts without their parts stay."""

    def __init__(self, subject: Subject, sides: Sides) -> None:
        self._subject = subject
        self._sides = sides
        self._counts: list[list[FileCount]] = [[] for _ in sides]
        self._rest: list[Open] = []
        self._source: list[FileCount] = []

    def read(self, days: Iterable[Days]) -> ProofReading:
        first, subject = self._sides[0], self._subject

        def view(story: Story) -> Story:
            return subject.view(self._sides, story)

        plans = plans_of_rounds(
            first.ports.lineage, first.sequence, first.look.story, days, subject.kept_from, view
        )
        compared = all_rounds([self._round(planned) for planned in plans])
        read_sides = tuple(
            side.counted(_in_order(side.look.live, counts))
            for side, counts in zip(self._sides, self._counts, strict=True)
        )
        return ProofReading(sides=read_sides, compared=compared, source=tuple(self._source))

    def _round(self, planned: CountRound) -> Compared:
        plan, days = planned.plan, planned.days
        source = self._subject.source(plan, days)
        own_counts = [
            side.ports.rows.count(files_of(side.look.live.files, days), plan.spans) for side in self._sides
        ]
        counts = (*source, *own_counts)
        if any(count.elsewhere for table_counts in counts for count in table_counts):
            # Rows on a day that their range doesn't tell of: rounds of days would count them in none.
            raise _OtherDayError
        self._source += _without_parts(source)
        for all_counts, round_counts in zip(self._counts, own_counts, strict=True):
            all_counts.extend(_without_parts([round_counts]))
        earlier = [rest.in_plan(plan) for rest in self._rest] or [() for _ in counts]
        split = [divided(plan, (*old, *new), days) for old, new in zip(earlier, counts, strict=True)]
        # A range with records of two days is judged in the round of its last day, with what this round has counted.
        self._rest = [rest for _, _, rest in split]
        return self._subject.compared(self._sides, split[0][0], [ready for _, ready, _ in split])


@dataclass(frozen=True, slots=True)
class CountRound:
    """A round of a proof: some arrival days, and which of their rows are counted."""

    days: Days
    plan: CountPlan


def plans_of_rounds(
    lineage: LineageTable,
    sequence: int,
    joined: Story,
    days: Iterable[Days],
    kept_from: date | None,
    view: Callable[[Story], Story],
) -> Iterator[CountRound]:
    """The rounds, each with the ranges of its days one by one, and all others joined. `sequence`: the number of
    the snapshot up to which ledgers are read. `view`: gives the ranges of a ledger the numbers of rows with which
    they are compared.
    """
    covered = view(joined)
    for day in days:
        on_days = RangeFilter(upto=sequence, arrived=arrivals_on(day))
        one_by_one = ranges_one_by_one(covered, view(story_of(lineage.entries(on_days))), day)
        yield CountRound(day, plan_rows(one_by_one, window=ALL, kept_from=kept_from, days=day))
        covered = joined_again(one_by_one, day)


def _without_parts(tables: Iterable[Sequence[FileCount]]) -> Iterator[FileCount]:
    return (replace(count, parts=()) for counts in tables for count in counts)


def _in_order(live: LiveFiles, counts: Iterable[FileCount]) -> tuple[FileCount, ...]:
    """The counts in the order of the table's files."""
    by_path = {count.path: count for count in counts}
    return tuple(by_path[file.path] for file in live.files)
