"""Does a typed table account for each row of the lake table's ranges? Pure functions on what was read.

    ledgers of the typed table   rows in = parsed + set aside + dropped, for each range
    rows of the three tables     for each range the numbers that its ledger states, and no row twice or from nowhere

The table of a window is judged as a typed table that parses every row: it has no quarantine table.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.belonging import strange_ranges, what_was_judged
from headrace.pipeline.proof.checks import hidden_rows
from headrace.pipeline.proof.counts import strange_rows, wrong_files
from headrace.pipeline.proof.families import children_too_early
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


def target_proof(evidence: TargetEvidence) -> TableProof:
    """What the evidence shows about a table that was made of the lake table."""
    looks = _looks(evidence)
    return TableProof(
        name=evidence.table.name,
        checks=tuple(_checks(evidence)),
        counts=_told_counts(evidence),
        rows=evidence.source_rows + sum(count.rows for look in looks for count in look.counts),
        files=evidence.source_files + sum(len(look.counts) for look in looks),
        unchanged=sum(len(look.unchanged) for look in looks),
        forgotten=evidence.forgotten,
        is_behind=rows_not_parsed(evidence) > 0,
    )


def _looks(evidence: TargetEvidence) -> tuple[TableLook, ...]:
    return (evidence.table,) if evidence.aside is None else (evidence.table, evidence.aside)


def _told_counts(evidence: TargetEvidence) -> str:
    numbers = stated_numbers(evidence.table.story.all())
    if evidence.aside is None:
        read = sum(step.range.rows for step in evidence.table.story.all() if step.range.kind is Kind.READ)
        beside = (
            f", and {counted(read, 'row')} read from the stream that the lake table needn't have"
            if read
            else ""
        )
        return f"{counted(numbers.parsed - read, 'row')} copied{beside}"
    late = rows_not_parsed(evidence)
    behind = f"; {counted(late, 'row')} not parsed yet" if late else ""
    return (
        f"{counted(numbers.parsed, 'row')} parsed, {numbers.aside:,} in quarantine, "
        f"{max(0, numbers.dropped):,} dropped{behind}"
    )


def _checks(evidence: TargetEvidence) -> Iterator[Check]:
    looks = _looks(evidence)
    of, story = evidence.table.name, evidence.table.story
    ranges = counted(sum(look.story.ranges for look in looks), "range")
    rows = counted(sum(count.rows for look in looks for count in look.counts), "row")
    files = counted(sum(len(look.counts) + len(look.unchanged) for look in looks), "file")
    yield checked(
        f"{of}: the ranges of each shard are one chain, up to the table's position",
        ranges,
        (
            *(statement for look in looks for statement in wrong_chains(look)),
            *(() if evidence.window is None else ranges_outside(evidence.window, evidence.table)),
            *(() if evidence.aside is None else ranges_behind(evidence.table, evidence.aside)),
        ),
    )
    if evidence.aside is not None:
        shards = sum(not is_chain(key) for key in story.steps)
        yield checked(
            f"{of}: no shard began before its parents had ended",
            counted(shards, "shard"),
            children_too_early(story, {}),
        )
    yield checked(
        f"{of}: each range's rows are parsed, set aside, or dropped for a reason, by its ledger"
        if evidence.aside
        else f"{of}: each range has a ledger",
        counted(story.ranges, "range"),
        (
            *wrong_accounts(story),
            *wrong_replacements(story),
            *wrong_settlings(evidence),
            *never_parsed(evidence),
        ),
    )
    # A typed table has its rows from the lake table, whose own proof judges to which stream they belong.
    if evidence.window is not None:
        yield checked(
            f"{of}: no record that was read from a stream is another stream's, by its arrival",
            what_was_judged(story, None),
            strange_ranges(story, {}),
        )
    yield checked(
        f"{of}: each data file is there, with the rows that the table's metadata states",
        files,
        (
            *(statement for look in looks for statement in wrong_files((*look.counts, *look.unchanged))),
            *(statement for look in looks for statement in hidden_rows(look.live)),
        ),
    )
    yield checked(
        f"{of}: the tables have the rows of each range that its ledger states",
        counted(evidence.judged.ranges + len(evidence.plan.clusters), "range"),
        (*evidence.judged.numbers, *wrong_numbers(evidence)),
    )
    yield checked(
        f"{of}: each row is of the lake table, and in one place only",
        rows,
        (
            *(
                statement
                for look in looks
                for statement in strange_rows(look.counts, has_lost=bool(story.lost))
            ),
            *evidence.judged.rows,
            *wrong_rows(evidence),
        ),
    )
