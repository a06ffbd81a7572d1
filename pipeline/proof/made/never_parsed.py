"""Rows that landed and that no wave of a typed table has found, by the ledgers of both tables. Pure functions.

lake table     (0 .. 20] 7 rows   (20 .. 30] 4 rows   (30 .. 50] 9 rows
typed table    (0 ........ 30] 11 rows  (30 .. 50] 6 rows         3 rows were gone before they were parsed

Rows that the retention or another engine removed before they were parsed are in neither table, so that only the
ledgers show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.story import Step
from headrace.pipeline.core.shards.sort_texts import order_text
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.made.evidence import MadeEvidence, accounting_of
from headrace.pipeline.proof.verdict import Unproved


def never_parsed(evidence: MadeEvidence) -> Iterator[Unproved]:
    """One sentence for each shard with rows that were never parsed. Shards of which the ledgers don't tell how
    many rows the lake table had are left out.
    """
    # The table of a window parses nothing, and where ledgers are lost the sums tell nothing.
    if evidence.aside is None or evidence.landed.lost or evidence.table.story.lost:
        return
    for key, landed in evidence.landed.steps.items():
        if evidence.stream in (None, key.stream.name) and not _is_unclear(key, evidence):
            rows = sum(_missing(landed, evidence.table.story.steps.get(key, ())))
            if rows:
                yield Unproved(
                    f"{counted(rows, 'row')} of {key} landed, "
                    f"and weren't in the lake table any more when {evidence.table.name} took these ranges: "
                    "upkeep.retention had removed them before that table was made, or another engine has"
                )


def _is_unclear(key: ShardKey, evidence: MadeEvidence) -> bool:
    return key in evidence.moved or bool(evidence.unpacked.get(key) or evidence.landed.derived.get(key))


def _missing(landed: Sequence[Step], parsed: Sequence[Step]) -> Iterator[int]:
    """For each stretch that begins and ends in both tables' ledgers: how many rows of it weren't parsed, if there were
    too few."""
    stated = {order_text(step.range.upto): rows for step, rows in _sums(landed)}
    before_landed = before_parsed = rows = 0
    for step in parsed:
        account = accounting_of(step)
        # A shard with rows of another origin can't be added up.
        if step.range.kind not in {Kind.PARSED, Kind.PROCESSED} or account is None:
            return
        rows += account.rows
        landed_upto = stated.get(order_text(step.range.upto))
        if landed_upto is not None:
            # More rows than landed are told by another check.
            yield max(0, (landed_upto - before_landed) - (rows - before_parsed))
            before_landed, before_parsed = landed_upto, rows


def _sums(steps: Sequence[Step]) -> Iterator[tuple[Step, int]]:
    """Each range, with the number of rows up to its end."""
    rows = 0
    for step in steps:
        rows += step.range.rows
        yield step, rows
