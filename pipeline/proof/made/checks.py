"""Does a typed table account for each row of the lake table's ranges? Pure functions on what was read.

    ledgers of the typed table   rows in = parsed + set aside + dropped, for each range
    rows of the three tables     for each range the numbers that its ledger states, and no row in both tables, twice, or from nowhere

The table of a window is judged as a typed table that parses every row: it has no quarantine table.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.belonging import judged, strange_ranges
from headrace.pipeline.proof.checks import hidden_rows
from headrace.pipeline.proof.counts import strange_rows, wrong_files
from headrace.pipeline.proof.families import early_children
from headrace.pipeline.proof.made.evidence import TableLook, TargetEvidence, rows_not_parsed
from headrace.pipeline.proof.made.ledgers import (
    ranges_behind,
    ranges_outside,
    wrong_accounts,
    wrong_chains,
    wrong_replacements,
    wrong_settlings,
)
from headrace.pipeline.proof.made.never_parsed import never_parsed
from headrace.pipeline.proof.made.rows import stated_numbers, wrong_numbers, wrong_rows
from headrace.pipeline.proof.verdict import Check, TableProof, checked


def target_proof(seen: TargetEvidence) -> TableProof:
    looks = _looks(seen)
    return TableProof(
        name=seen.table.name,
        checks=tuple(_checks(seen)),
        counts=_told_counts(seen),
        rows=seen.source_rows + sum(each.rows for look in looks for each in look.counts),
        files=seen.source_files + sum(len(look.counts) for look in looks),
        unchanged=sum(len(look.unchanged) for look in looks),
        forgotten=seen.forgotten,
        is_behind=rows_not_parsed(seen) > 0,
    )


def _looks(seen: TargetEvidence) -> tuple[TableLook, ...]:
    return (seen.table,) if seen.aside is None else (seen.table, seen.aside)


def _told_counts(seen: TargetEvidence) -> str:
    told = stated_numbers(seen.table.story.all())
    if seen.aside is None:
        read = sum(step.range.rows for step in seen.table.story.all() if step.range.kind is Kind.READ)
        beside = (
            f", and {counted(read, 'row')} read from the stream that the lake table needn't have"
            if read
            else ""
        )
        return f"{counted(told.parsed - read, 'row')} copied{beside}"
    late = rows_not_parsed(seen)
    behind = f"; {counted(late, 'row')} not parsed yet" if late else ""
    return f"{counted(told.parsed, 'row')} parsed, {told.aside:,} in quarantine, {max(0, told.dropped):,} dropped{behind}"


def _checks(seen: TargetEvidence) -> Iterator[Check]:
    looks = _looks(seen)
    of, story = seen.table.name, seen.table.story
    ranges = counted(sum(look.story.ranges for look in looks), "range")
    rows = counted(sum(each.rows for look in looks for each in look.counts), "row")
    files = counted(sum(len(look.counts) + len(look.unchanged) for look in looks), "file")
    yield checked(
        f"{of}: the ranges of each shard are one chain, up to the table's position",
        ranges,
        (
            *(told for look in looks for told in wrong_chains(look)),
            *(() if seen.window is None else ranges_outside(seen.window, seen.table)),
            *(() if seen.aside is None else ranges_behind(seen.table, seen.aside)),
        ),
    )
    if seen.aside is not None:
        shards = sum(not is_chain(key) for key in story.steps)
        yield checked(
            f"{of}: no shard began before its parents had ended",
            counted(shards, "shard"),
            early_children(story, {}),
        )
    yield checked(
        f"{of}: each range's rows are parsed, set aside, or dropped for a reason, by its ledger"
        if seen.aside
        else f"{of}: each range has a ledger",
        counted(story.ranges, "range"),
        (
            *wrong_accounts(story),
            *wrong_replacements(story),
            *wrong_settlings(seen),
            *never_parsed(seen),
        ),
    )
    if seen.window is not None:
        yield checked(
            f"{of}: no record that was read from a stream is another stream's, by its arrival",
            judged(story, None),
            strange_ranges(story, {}),
        )
    yield checked(
        f"{of}: each data file is there, with the rows that the table's metadata states",
        files,
        (
            *(told for look in looks for told in wrong_files((*look.counts, *look.unchanged))),
            *(told for look in looks for told in hidden_rows(look.live)),
        ),
    )
    yield checked(
        f"{of}: the tables have the rows of each range that its ledger states",
        counted(seen.judged.ranges + len(seen.plan.clusters), "range"),
        (*seen.judged.numbers, *wrong_numbers(seen)),
    )
    yield checked(
        f"{of}: each row is of the lake table, and in one place only",
        rows,
        (
            *(told for look in looks for told in strange_rows(look.counts, has_lost=bool(story.lost))),
            *seen.judged.rows,
            *wrong_rows(seen),
        ),
    )
