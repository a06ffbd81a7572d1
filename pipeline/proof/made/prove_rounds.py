"""All rows of a typed table and of its quarantine table, compared with the lake table's in rounds of some arrival
days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date

from headrace.pipeline.core.ledger.arrivals import EVER, Days
from headrace.pipeline.proof.made.evidence import Judged, TargetEvidence, source_view
from headrace.pipeline.proof.made.ledgers import wrong_settlings
from headrace.pipeline.proof.made.rows import Totals, cluster_numbers, wrong_rows, wrong_totals
from headrace.pipeline.proof.made.sides import Side, Sides, late_steps
from headrace.pipeline.proof.made.sums import TargetRows
from headrace.pipeline.proof.prove_rounds import OtherDayError, Rounds, in_order
from headrace.pipeline.proof.rounds import Open, cluster_place, divided, files_of, rounds_of
from headrace.pipeline.proof.spans import CountPlan, FileCount
from headrace.pipeline.proof.verdict import Told, Wrong


@dataclass(slots=True)
class _Found:
    """What the rounds have found so far."""

    counts: list[list[FileCount]]
    """The counts of the files of each table, without the parts."""
    rest: list[Open] = field(default_factory=list)
    """Counts of ranges that have records of later days: those of the lake table, then of each other table."""
    numbers: list[tuple[tuple[int, str], Told]] = field(default_factory=list)
    rows: list[Wrong] = field(default_factory=list)
    totals: Totals = field(default_factory=dict)
    ranges: int = 0
    source_rows: int = 0
    source_files: int = 0


@dataclass(frozen=True, slots=True)
class TargetRounds:
    """Counts all rows of such a table in rounds of some days."""

    evidence: Callable[[CountPlan, Sides], TargetEvidence]
    rows: TargetRows
    kept_from: date | None
    most: int

    def run(self, sides: Sides) -> tuple[TargetEvidence, Sides] | None:
        """`sides`: with joined ranges. None where each range has to be looked at by itself."""
        late, lost = late_steps(sides)
        bare = self.evidence(CountPlan((), ()), sides)
        # A joined range doesn't tell which of its ranges the quarantine table lacks.
        if lost or any(step.range.joined > 1 for step in late) or any(wrong_settlings(bare)):
            return None
        story = sides[0].look.story
        rounds = Rounds(
            sides[0].ports.lineage,
            sides[0].sequence,
            story,
            self.kept_from,
            lambda single: source_view(single, late),
        )
        files = [file for side in sides for file in side.look.live.files]
        days = rounds_of(story, self.most) if all(file.day is not None for file in files) else (EVER,)
        try:
            findings = self._counted(sides, rounds, days)
        except OtherDayError:
            findings = self._counted(sides, rounds, (EVER,))
        return self._evidence_of_all(sides, findings, is_whole=not late)

    def _counted(self, sides: Sides, rounds: Rounds, days: tuple[Days, ...]) -> _Found:
        findings = _Found([[] for _ in sides])
        for planned in rounds.plans(days):
            source = self.rows.source(planned.plan, planned.days)
            counts = [source, *(_of(side, planned.plan, planned.days) for side in sides)]
            if any(count.elsewhere for table_counts in counts for count in table_counts):
                # Rows on a day that their range doesn't tell of: rounds of days would count them in none.
                raise OtherDayError
            findings.source_rows += sum(count.stated for count in source)
            findings.source_files += len(source)
            for all_counts, round_counts in zip(findings.counts, counts[1:], strict=True):
                all_counts.extend(replace(count, parts=()) for count in round_counts)
            self._judge(sides, findings, planned.plan, counts, planned.days)
        return findings

    def _judge(
        self,
        sides: Sides,
        findings: _Found,
        plan: CountPlan,
        counts: list[tuple[FileCount, ...]],
        days: Days,
    ) -> None:
        earlier = [open_counts.in_plan(plan) for open_counts in findings.rest] or [() for _ in counts]
        split = [divided(plan, (*old, *new), days) for old, new in zip(earlier, counts, strict=True)]
        findings.rest = [rest for _, _, rest in split]
        closed, ready = split[0][0], [closed_counts for _, closed_counts, _ in split]
        closed_evidence = replace(self.evidence(closed, sides), patterns=self.rows.patterns(closed, ready))
        findings.numbers += (
            (cluster_place(cluster, closed), statement)
            for cluster, statement in cluster_numbers(closed_evidence, findings.totals)
        )
        findings.rows += wrong_rows(closed_evidence)
        findings.ranges += len(closed.clusters)

    def _evidence_of_all(
        self, sides: Sides, findings: _Found, *, is_whole: bool
    ) -> tuple[TargetEvidence, Sides]:
        read = tuple(
            side.counted(in_order(side.look.live, table_counts))
            for side, table_counts in zip(sides, findings.counts, strict=True)
        )
        evidence_of_all = replace(self.evidence(CountPlan((), ()), read), is_whole=is_whole)
        numbers = (statement for _, statement in sorted(findings.numbers, key=lambda numbered: numbered[0]))
        judged = Judged(
            findings.ranges, (*numbers, *wrong_totals(evidence_of_all, findings.totals)), tuple(findings.rows)
        )
        return replace(
            evidence_of_all,
            judged=judged,
            source_rows=findings.source_rows,
            source_files=findings.source_files,
        ), read


def _of(side: Side, plan: CountPlan, days: Days) -> tuple[FileCount, ...]:
    return side.ports.rows.count(files_of(side.look.live.files, days), plan.spans)
