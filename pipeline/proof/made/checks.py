"""Checks that a typed table accounts for each row of the lake table's ranges. Pure functions on what was read.

    ledgers of the typed table   rows in = parsed + set aside + dropped, for each range
    rows of the three tables     for each range the numbers that its ledger states, and no row twice or from nowhere

The table of a window is judged as a typed table that parses every row: it has no quarantine table.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.belonging import strange_ranges, what_was_judged
from headrace.pipeline.proof.counts import strange_rows
from headrace.pipeline.proof.latest.checks import latest_checks
from headrace.pipeline.proof.made.evidence import MadeEvidence, rows_not_parsed
from headrace.pipeline.proof.made.ledgers import (
    ranges_behind,
    ranges_outside,
    wrong_accounts,
    wrong_replacements,
    wrong_settlings,
)
from headrace.pipeline.proof.made.never_parsed import never_parsed
from headrace.pipeline.proof.made.rows import stated_numbers, wrong_totals
from headrace.pipeline.proof.table_checks import chain_check, file_check, finding_of, parents_check
from headrace.pipeline.proof.verdict import Check, TableProof, checked


def made_finding(evidence: MadeEvidence) -> TableProof:
    """The result of all checks of a table that was made of the lake table."""
    return finding_of(
        evidence,
        _checks(evidence),
        counts=_told_counts(evidence),
        is_behind=rows_not_parsed(evidence) > 0,
    )


def _told_counts(evidence: MadeEvidence) -> str:
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


def _checks(evidence: MadeEvidence) -> Iterator[Check]:
    of, story = f"{evidence.table.name}: ", evidence.table.story
    outside = () if evidence.window is None else ranges_outside(evidence.window, evidence.table)
    behind = () if evidence.aside is None else ranges_behind(evidence.table, evidence.aside)
    yield chain_check(evidence, (*outside, *behind), of=of)
    # A window may begin anywhere in the family of shards.
    if evidence.aside is not None:
        yield parents_check(evidence, {}, of=of)
    yield _account_check(evidence, of)
    # A typed table has its rows from the lake table, whose own proof judges to which stream they belong.
    if evidence.window is not None:
        yield checked(
            f"{of}no record that was read from a stream is another stream's, by its arrival",
            what_was_judged(story, None),
            strange_ranges(story, {}),
        )
    yield file_check(evidence, of=of)
    yield from _row_checks(evidence, of)
    if evidence.latest is not None:
        yield from latest_checks(evidence.latest, evidence.table.name)


def _account_check(evidence: MadeEvidence, of: str) -> Check:
    story = evidence.table.story
    promise = (
        "each range has a ledger"
        if evidence.aside is None
        else "each range's rows are parsed, set aside, or dropped for a reason, by its ledger"
    )
    return checked(
        f"{of}{promise}",
        counted(story.ranges, "range"),
        (
            *wrong_accounts(story),
            *wrong_replacements(story),
            *wrong_settlings(evidence),
            *never_parsed(evidence),
        ),
    )


def _row_checks(evidence: MadeEvidence, of: str) -> Iterator[Check]:
    has_lost = bool(evidence.table.story.lost)
    rows = "no other rows than" if evidence.loses_rows else "the rows"
    yield checked(
        f"{of}the tables have {rows} of each range that its ledger states",
        counted(evidence.compared.ranges, "range"),
        (*evidence.compared.miscounts, *wrong_totals(evidence)),
    )
    strangers = (
        statement for look in evidence.looks for statement in strange_rows(look.counts, has_lost=has_lost)
    )
    yield checked(
        f"{of}each row is of the lake table, and in one place only",
        counted(evidence.rows, "row"),
        (*strangers, *evidence.compared.rows),
    )
