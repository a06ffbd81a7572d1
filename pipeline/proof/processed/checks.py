"""Checks that the table of a record processor accounts for each record of the lake table's ranges. Pure functions
on what was read.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.counts import strange_rows
from headrace.pipeline.proof.made.evidence import MadeEvidence, accounting_of, rows_not_parsed
from headrace.pipeline.proof.made.ledgers import ranges_behind, ranges_outside, wrong_settlings
from headrace.pipeline.proof.made.never_parsed import never_parsed
from headrace.pipeline.proof.processed.rows import wrong_totals
from headrace.pipeline.proof.table_checks import chain_check, file_check, finding_of, parents_check
from headrace.pipeline.proof.verdict import Check, TableProof, Wrong, checked


def processed_finding(evidence: MadeEvidence) -> TableProof:
    """The result of all checks of a processor's table."""
    late = rows_not_parsed(evidence)
    return finding_of(
        evidence, _checks(evidence), counts=_told_counts(evidence, late=late), is_behind=late > 0
    )


def _told_counts(evidence: MadeEvidence, *, late: int) -> str:
    steps = tuple(evidence.table.story.all())
    accounts = [(step, account) for step in steps if (account := accounting_of(step)) is not None]
    records = sum(account.parsed for _, account in accounts)
    # What a redrive has processed had been set aside by a wave.
    aside = sum(
        -account.parsed if is_chain(step.range.key) else account.quarantined for step, account in accounts
    )
    behind = f"; {counted(late, 'record')} not processed yet" if late else ""
    return (
        f"{counted(records, 'record')} processed into {counted(sum(step.range.rows for step in steps), 'row')}, "
        f"{aside:,} in quarantine{behind}"
    )


def _checks(evidence: MadeEvidence) -> Iterator[Check]:
    of, story, table = f"{evidence.table.name}: ", evidence.table.story, evidence.table
    outside = () if evidence.window is None else ranges_outside(evidence.window, table)
    behind = () if evidence.aside is None else ranges_behind(table, evidence.aside)
    yield chain_check(evidence, (*outside, *behind), of=of)
    # A window may begin anywhere in the family of shards.
    if evidence.window is None:
        yield parents_check(evidence, {}, of=of)
    yield checked(
        f"{of}each range's records were processed or set aside, by its ledger",
        counted(story.ranges, "range"),
        (*_wrong_accounts(evidence), *wrong_settlings(evidence), *never_parsed(evidence)),
    )
    yield file_check(evidence, of=of)
    yield checked(
        f"{of}each range has the records of the lake table and the rows that its ledger states",
        counted(evidence.compared.ranges, "range"),
        (*evidence.compared.miscounts, *wrong_totals(evidence)),
    )
    strangers = (
        statement
        for look in evidence.looks
        for statement in strange_rows(look.counts, has_lost=bool(table.story.lost))
    )
    yield checked(
        f"{of}no row is there twice, and none is outside of the ranges",
        counted(evidence.rows, "row"),
        (*strangers, *evidence.compared.rows),
    )


def _wrong_accounts(evidence: MadeEvidence) -> Iterator[Wrong]:
    """The ranges whose accounting doesn't tell what became of each record."""
    for step in evidence.table.story.all():
        account = accounting_of(step)
        if account is None:
            yield Wrong(f"the ledger doesn't tell what became of the records of {step}")
        elif not account.is_complete or account.dropped:
            yield Wrong(
                f"{step}: of {counted(account.rows, 'record')} the ledger tells of {account.parsed:,} processed and "
                f"{account.quarantined:,} set aside"
            )
