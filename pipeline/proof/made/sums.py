"""Compares the rows of a typed table and of its quarantine table, or of a window's table, with those of the lake
table.
"""

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
    """Compares the rows of a table with those of the lake table: by sums where these are enough, else row by row
    in a shuffle.
    """

    ports: TargetPorts

    def source(self, plan: CountPlan, days: Days = EVER) -> tuple[FileCount, ...]:
        """The counts of those files of the lake table that may have rows of the ranges."""
        every = comparing(plan)
        files = () if every.is_empty else _within(self.ports.source.look().files, plan, every)
        return self.ports.lake.count(files_of(files, days), plan.spans)

    def patterns(self, plan: CountPlan, counts: Sequence[tuple[FileCount, ...]]) -> tuple[Pattern, ...]:
        """How often each row is in the lake table and in the other tables.

        `counts`: those of the lake table, and of each other table.
        """
        # Most ranges end here, by the sums of their rows, and need no shuffle.
        alike = patterns_by_sums(plan, counts[0], counts[1:])
        scope = comparing(plan, besides=alike)
        paths = [_with_parts(count, scope) for count in counts]
        compared = () if scope.is_empty else self.ports.compare(paths, scope)
        return (*(pattern for span_patterns in alike.values() for pattern in span_patterns), *compared)


def _with_parts(counts: Iterable[FileCount], scope: Comparing) -> list[str]:
    """The files that have rows of the spans that are compared."""
    return list(
        dict.fromkeys(
            count.path for count in counts if any(scope.has((part.shard, part.span)) for part in count.parts)
        )
    )


def _within(files: Iterable[SourceFile], plan: CountPlan, scope: Comparing) -> list[LiveFile]:
    """The files of the lake table that may have rows of the ranges that are compared."""
    (low, high), may_have = scope.reach(), plan.may_be_on()
    return [
        LiveFile(file.path, file.day, file.rows, 0)
        for file in files
        if (file.high is None or file.high > low) and file.low <= high and may_have(file.day)
    ]
