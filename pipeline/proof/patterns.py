"""How often each row is in each of several tables (sides). Rows for which that is the same make one pattern. Pure
functions on values.

    spans of each shard  ->  those whose sums agree                                   ->  patterns
                         ->  the others: buckets  ->  Spark brings their rows together ->  patterns

Each file was counted before, and a hash of each row added up. Where the sums of a span are the same on the first
side and on the other sides together, Spark needn't bring their rows together. Sums can't tell which rows are
missing, there twice, or from elsewhere.

A bucket has whole spans, so that one task sees all rows of a span, on all sides, and no task has more rows than a
few ranges do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.pipeline.proof.spans import CountPlan, Digest, FileCount, ShardSpans, rows_by_span

MOST_ROWS = 100_000
"""The rows that the ledgers state for one bucket, unless a single range has more."""
MOST_NAMED = 5
"""The most rows of one pattern that are named, and not only counted."""
NO_BUCKET = -1
"""The mark of a span whose rows aren't compared."""
Span = tuple[int, int]
"""Place of the shard in the spans that were asked for, and the span."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The rows of one span for which it is the same how often they are on each side: each of them is `times[i]`
    times on side i.
    """

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
    """Which rows are compared, and in which bucket each of them is."""

    spans: tuple[ShardSpans, ...]
    buckets: tuple[tuple[int, ...], ...]
    """The bucket of each span of each shard."""

    @property
    def is_empty(self) -> bool:
        return all(bucket == NO_BUCKET for of in self.buckets for bucket in of)

    def has(self, place: Span) -> bool:
        shard, span = place
        return self.buckets[shard][span] != NO_BUCKET

    def reach(self) -> tuple[str, str]:
        """The lowest and the highest sort key that a compared row can have."""
        low, high = "~", ""
        for spans, buckets in zip(self.spans, self.buckets, strict=True):
            for i, bucket in enumerate(buckets):
                if bucket != NO_BUCKET:
                    low = min(low, spans.ends[i - 1] if i else "")
                    high = max(high, spans.ends[i])
        return low, high


def patterns_by_sums(
    plan: CountPlan, first_side: Iterable[FileCount], other_sides: Sequence[Iterable[FileCount]]
) -> Mapping[Span, tuple[Pattern, ...]]:
    """Those spans in which, by their sums, the rows of the first side (`first_side`) are the rows of the other
    sides together.
    """
    all_of, other_digests = _digests(first_side), [_digests(counts) for counts in other_sides]
    patterns: dict[Span, tuple[Pattern, ...]] = {}
    for shard, span in ((c.shard, span) for c in plan.clusters for span in c.spans):
        side_digests = [digests.get((shard, span), Digest()) for digests in other_digests]
        # A row that is missing, twice or from elsewhere changes the sum; which row it is, only the rows
        # themselves tell.
        if all_of.get((shard, span), Digest()) == sum(side_digests, Digest()):
            patterns[shard, span] = tuple(
                # Each row is once on the first side and once on one of the others.
                Pattern(shard, span, (1, *(int(n == side) for n in range(len(side_digests)))), digest.rows)
                for side, digest in enumerate(side_digests)
                if digest.rows
            )
    return patterns


def _digests(counts: Iterable[FileCount]) -> dict[Span, Digest]:
    digests: dict[Span, Digest] = {}
    for part in (part for count in counts for part in count.parts):
        place = part.shard, part.span
        digests[place] = digests.get(place, Digest()) + part.digest
    return digests


def comparing(plan: CountPlan, *, besides: Collection[Span] = (), most: int = MOST_ROWS) -> Comparing:
    """The ranges of the plan, in buckets of at most about `most` rows. `besides`: spans whose rows needn't be
    compared.
    """
    buckets = [[NO_BUCKET] * len(shard_spans.ends) for shard_spans in plan.spans]
    number, rows = 0, 0.0
    for cluster in plan.clusters:
        # Replacements that cut ranges may join all ranges of a shard to one cluster.
        for span, span_rows in rows_by_span(plan, cluster).items():
            if (cluster.shard, span) in besides:
                continue
            # A span is never divided, so that one task sees all rows that may be the same.
            if rows and rows + span_rows > most:
                number, rows = number + 1, 0.0
            rows += span_rows
            buckets[cluster.shard][span] = number
    return Comparing(plan.spans, tuple(map(tuple, buckets)))


def by_span(patterns: Iterable[Pattern]) -> dict[Span, list[Pattern]]:
    grouped: dict[Span, list[Pattern]] = {}
    for pattern in patterns:
        grouped.setdefault((pattern.shard, pattern.span), []).append(pattern)
    return grouped
