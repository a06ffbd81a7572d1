"""All rows of the lake table, counted in rounds of some arrival days: of the ranges of other days only joined ones are
in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date

from headrace.pipeline.core.ledger.arrivals import ALL, EVER, Days
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.live_files import LiveFiles
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.proof.checks import ProofEvidence
from headrace.pipeline.proof.counts import overlaps, wrong_clusters
from headrace.pipeline.proof.ports import ProofTable
from headrace.pipeline.proof.rounds import (
    Open,
    arrivals_on,
    cluster_place,
    divided,
    files_of,
    joined_again,
    ranges_one_by_one,
    rounds_of,
)
from headrace.pipeline.proof.spans import CountPlan, Doubled, FileCount, plan_rows
from headrace.pipeline.proof.verdict import Wrong

MOST_RANGES = 200_000
"""Ranges that are in memory one by one, unless a single day has more."""


@dataclass(frozen=True, slots=True)
class CountRound:
    days: Days
    plan: CountPlan


@dataclass(slots=True)
class Rounds:
    """The ranges of each round, one by one. `view`: how the ranges of a ledger are compared with rows."""

    lineage: LineageTable
    sequence: int
    """The sequence number of the snapshot up to which ledgers are read."""
    joined: Story
    kept_from: date | None
    view: Callable[[Story], Story] = lambda story: story

    def plans(self, days: Iterable[Days]) -> Iterator[CountRound]:
        covered = self.view(self.joined)
        for day in days:
            on_days = RangeFilter(upto=self.sequence, arrived=arrivals_on(day))
            one_by_one = ranges_one_by_one(covered, self.view(story_of(self.lineage.entries(on_days))), day)
            yield CountRound(day, plan_rows(one_by_one, window=ALL, kept_from=self.kept_from, days=day))
            covered = joined_again(one_by_one, day)


def all_rows(evidence: ProofEvidence, table: ProofTable, rounds: Rounds, most: int) -> ProofEvidence:
    """`seen`: with the joined ranges as its story."""
    has_days = all(file.day is not None for file in evidence.live.files)
    days = rounds_of(rounds.joined, most) if has_days else (EVER,)
    try:
        return _counted(evidence, table, rounds, days)
    except OtherDayError:
        # All days at once: then no row is on another day.
        return _counted(evidence, table, rounds, (EVER,))


class OtherDayError(Exception):
    """A file has rows of ranges that tell of other days: all days have to be counted at once."""


def _counted(
    evidence: ProofEvidence, table: ProofTable, rounds: Rounds, days: tuple[Days, ...]
) -> ProofEvidence:
    wrong: list[tuple[tuple[int, str], Wrong]] = []
    doubled: list[Doubled] = []
    counts: list[FileCount] = []
    ranges = 0
    rest: Open | None = None
    plan = CountPlan((), ())
    for planned in rounds.plans(days):
        counted = table.count(files_of(evidence.live.files, planned.days), planned.plan.spans)
        if any(count.elsewhere for count in counted):
            raise OtherDayError
        earlier = () if rest is None else rest.in_plan(planned.plan)
        plan, ready, rest = divided(planned.plan, (*earlier, *counted), planned.days)
        wrong += (
            (cluster_place(cluster, plan), statement) for cluster, statement in wrong_clusters(plan, ready)
        )
        doubled += table.doubled(overlaps(plan, ready), plan.spans)
        ranges += len(plan.clusters)
        counts += (replace(count, parts=()) for count in counted)
    return replace(
        evidence,
        plan=CountPlan((), (), plan.derived),
        counts=in_order(evidence.live, counts),
        compared=ranges,
        miscounts=tuple(statement for _, statement in sorted(wrong, key=lambda numbered: numbered[0])),
        doubled=tuple(doubled),
    )


def in_order(live: LiveFiles, counts: Iterable[FileCount]) -> tuple[FileCount, ...]:
    """The counts in the order of the table's files."""
    by_path = {count.path: count for count in counts}
    return tuple(by_path[file.path] for file in live.files)
