"""The table of a record processor with its quarantine table, as the subject of a proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.pipeline.proof.counts import overlaps
from headrace.pipeline.proof.evidence import Compared
from headrace.pipeline.proof.made.subject import MadeSubject
from headrace.pipeline.proof.processed.checks import processed_finding
from headrace.pipeline.proof.processed.rows import compared_rows
from headrace.pipeline.proof.sides import Sides
from headrace.pipeline.proof.spans import CountPlan, FileCount
from headrace.pipeline.proof.subject import ProofReading
from headrace.pipeline.proof.verdict import TableProof


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessedSubject(MadeSubject):
    """A processor's table as the subject of a proof. It is read as any table made of the lake table, and compared
    by numbers of rows.
    """

    def compared(self, sides: Sides, plan: CountPlan, counts: Sequence[tuple[FileCount, ...]]) -> Compared:
        _, *own_counts = counts
        # A right number doesn't show a row that is there twice in the place of a missing one: only the keys do.
        doubled = tuple(
            double
            for side, table in zip(sides, own_counts, strict=True)
            for double in side.ports.rows.doubled(overlaps(plan, table), plan.spans)
        )
        return compared_rows(self._evidence(sides), plan, counts, doubled)

    def finding(self, reading: ProofReading) -> TableProof:
        return processed_finding(self._evidence_of(reading))
