"""How the rows of two or more tables stand beside each other: a pattern for all rows that stand alike. Pure functions on values.

    spans of each shard  ->  buckets  ->  Spark brings the rows of a bucket together  ->  patterns

A bucket has whole spans, so that one task sees all rows of a span, on all sides, and no task has more rows than a few ranges do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.core.proof_rows import CountPlan, ShardSpans, rows_by_span

MOST_ROWS = 100_000
"""Rows that the ledgers state for one bucket, unless a single range has more."""
MOST_NAMED = 5
"""Rows of one pattern that are named, and not only counted."""
NO_BUCKET = -1
"""Of a span whose rows aren't compared."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Rows of one span that stand alike: each of them is `times[i]` times on side i."""

    shard: int
    """Place of the shard in the spans that were asked for."""
    span: int
    times: tuple[int, ...]
    keys: int
    """How many different rows stand like this."""
    first: tuple[str, ...] = ()
    """Sequence numbers of the first of them."""
    differs: bool = False
    """Whether the sides have other payloads for these rows."""


@dataclass(frozen=True, slots=True)
class Comparing:
    """Which rows are compared, and in which bucket."""

    spans: tuple[ShardSpans, ...]
    buckets: tuple[tuple[int, ...], ...]
    """For each shard and each of its spans."""

    @property
    def is_empty(self) -> bool:
        return all(bucket == NO_BUCKET for of in self.buckets for bucket in of)

    def reach(self) -> tuple[str, str]:
        """The lowest and the highest sort key that a compared row can have."""
        low, high = "~", ""
        for spans, buckets in zip(self.spans, self.buckets, strict=True):
            for i, bucket in enumerate(buckets):
                if bucket != NO_BUCKET:
                    low = min(low, spans.ends[i - 1] if i else "")
                    high = max(high, spans.ends[i])
        return low, high


def comparing(plan: CountPlan, *, most: int = MOST_ROWS) -> Comparing:
    """All ranges of the plan, in buckets of so many rows."""
    buckets = [[NO_BUCKET] * len(each.ends) for each in plan.spans]
    number, rows = 0, 0.0
    for cluster in plan.clusters:
        # Replacements that cut ranges may join all ranges of a shard to one cluster.
        for span, its in rows_by_span(plan, cluster).items():
            if rows and rows + its > most:
                number, rows = number + 1, 0.0
            rows += its
            buckets[cluster.shard][span] = number
    return Comparing(plan.spans, tuple(map(tuple, buckets)))


def by_span(patterns: Iterable[Pattern]) -> dict[tuple[int, int], list[Pattern]]:
    found: dict[tuple[int, int], list[Pattern]] = {}
    for each in patterns:
        found.setdefault((each.shard, each.span), []).append(each)
    return found
