"""All rows of a typed table and of its quarantine table, compared with the lake table's in rounds of some arrival days."""

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
    """Of the files of each table, without the parts."""
    left: list[Open] = field(default_factory=list)
    """Of the lake table and of each table: counts of ranges that have records of later days."""
    numbers: list[tuple[tuple[int, str], Told]] = field(default_factory=list)
    rows: list[Wrong] = field(default_factory=list)
    totals: Totals = field(default_factory=dict)
    ranges: int = 0
    source_rows: int = 0
    source_files: int = 0


@dataclass(frozen=True, slots=True)
class TargetRounds:
    evidence: Callable[[CountPlan, Sides], TargetEvidence]
    rows: TargetRows
    kept_from: date | None
    most: int

    def run(self, sides: Sides) -> tuple[TargetEvidence, Sides] | None:
        """`sides`: with joined ranges. None where each range has to be looked at by itself."""
        late, lost = late_steps(sides)
        bare = self.evidence(CountPlan((), ()), sides)
        if lost or any(step.range.joined > 1 for step in late) or any(wrong_settlings(bare)):
            return None
        story = sides[0].look.story
        rounds = Rounds(
            sides[0].ports.lineage,
            sides[0].sequence,
            story,
            self.kept_from,
            lambda each: source_view(each, late),
        )
        files = [file for each in sides for file in each.look.live.files]
        days = rounds_of(story, self.most) if all(each.day is not None for each in files) else (EVER,)
        try:
            found = self._counted(sides, rounds, days)
        except OtherDayError:
            found = self._counted(sides, rounds, (EVER,))
        return self._told(sides, found, is_whole=not late)

    def _counted(self, sides: Sides, rounds: Rounds, days: tuple[Days, ...]) -> _Found:
        found = _Found([[] for _ in sides])
        for each in rounds.plans(days):
            source = self.rows.source(each.plan, each.days)
            counts = [source, *(_of(side, each.plan, each.days) for side in sides)]
            if any(count.elsewhere for its in counts for count in its):
                raise OtherDayError
            found.source_rows += sum(count.stated for count in source)
            found.source_files += len(source)
            for known, its in zip(found.counts, counts[1:], strict=True):
                known.extend(replace(count, parts=()) for count in its)
            self._judge(sides, found, each.plan, counts, each.days)
        return found

    def _judge(
        self,
        sides: Sides,
        found: _Found,
        plan: CountPlan,
        counts: list[tuple[FileCount, ...]],
        days: Days,
    ) -> None:
        earlier = [each.in_plan(plan) for each in found.left] or [() for _ in counts]
        split = [divided(plan, (*old, *new), days) for old, new in zip(earlier, counts, strict=True)]
        found.left = [left for _, _, left in split]
        closed, ready = split[0][0], [its for _, its, _ in split]
        seen = replace(self.evidence(closed, sides), patterns=self.rows.patterns(closed, ready))
        found.numbers += (
            (cluster_place(cluster, closed), told) for cluster, told in cluster_numbers(seen, found.totals)
        )
        found.rows += wrong_rows(seen)
        found.ranges += len(closed.clusters)

    def _told(self, sides: Sides, found: _Found, *, is_whole: bool) -> tuple[TargetEvidence, Sides]:
        read = tuple(
            each.counted(in_order(each.look.live, its)) for each, its in zip(sides, found.counts, strict=True)
        )
        seen = replace(self.evidence(CountPlan((), ()), read), is_whole=is_whole)
        numbers = (told for _, told in sorted(found.numbers, key=lambda each: each[0]))
        judged = Judged(found.ranges, (*numbers, *wrong_totals(seen, found.totals)), tuple(found.rows))
        return replace(
            seen, judged=judged, source_rows=found.source_rows, source_files=found.source_files
        ), read


def _of(side: Side, plan: CountPlan, days: Days) -> tuple[FileCount, ...]:
    return side.ports.rows.count(files_of(side.look.live.files, days), plan.spans)
