"""How the rows of a typed table and of its quarantine table, or of a window's table, stand beside those of the lake table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.pipeline.core.ledger.arrivals import EVER, Days
from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.proof.patterns import Comparing, Pattern, comparing, patterns_by_sums
from headrace.pipeline.proof.ports import TargetPorts
from headrace.pipeline.proof.rounds import files_of
from headrace.pipeline.proof.spans import CountPlan, FileCount
from headrace.pipeline.typed.values import SourceFile


@dataclass(frozen=True, slots=True)
class TargetRows:
    ports: TargetPorts

    def source(self, plan: CountPlan, days: Days = EVER) -> tuple[FileCount, ...]:
        """Counts of the lake table's files that may have rows of the ranges."""
        every = comparing(plan)
        files = () if every.is_empty else _within(self.ports.source.look().files, plan, every)
        return self.ports.lake.count(files_of(files, days), plan.spans)

    def patterns(self, plan: CountPlan, counts: Sequence[tuple[FileCount, ...]]) -> tuple[Pattern, ...]:
        """`counts`: those of the lake table, and of each other table."""
        alike = patterns_by_sums(plan, counts[0], counts[1:])
        wanted = comparing(plan, besides=alike)
        paths = [_with_parts(each, wanted) for each in counts]
        compared = () if wanted.is_empty else self.ports.comparer.compare(paths, wanted)
        return (*(pattern for its in alike.values() for pattern in its), *compared)


def _with_parts(counts: Iterable[FileCount], wanted: Comparing) -> list[str]:
    """The files that have rows of the spans that are compared."""
    return list(
        dict.fromkeys(
            each.path for each in counts if any(wanted.has((part.shard, part.span)) for part in each.parts)
        )
    )


def _within(files: Iterable[SourceFile], plan: CountPlan, wanted: Comparing) -> list[LiveFile]:
    """The files of the lake table that may have rows of the ranges that are compared."""
    (low, high), may_have = wanted.reach(), plan.may_be_on()
    return [
        LiveFile(each.path, each.day, each.rows, 0)
        for each in files
        if (each.high is None or each.high > low) and each.low <= high and may_have(each.day)
    ]
