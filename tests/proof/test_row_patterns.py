"""Which rows of three tables stand alike by their sums alone, and which have to be brought together."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.proof.patterns import NO_BUCKET, Pattern, comparing, patterns_by_sums
from headrace.pipeline.proof.spans import Cluster, CountPlan, FileCount, Part, ShardSpans
from tests.lake.samples import a_key

A = a_key(0)
_SPANS = 3
PLAN = CountPlan(
    (ShardSpans("s", 1, A.shard_id, ("1", "2", "3"), (0, 1, 1)),),
    tuple(Cluster(0, range(n, n + 1), (), 10) for n in (1, 2)),
)


def counts_of(rows: Iterable[tuple[int, int]]) -> tuple[FileCount, ...]:
    """A file for each row, which is a span and a number."""
    return tuple(
        FileCount("f", None, 1, 1, (Part(0, span, 1, "", "", hash((span, number)) % 2**64),))
        for span, number in rows
    )


def test_the_rows_of_a_span_stand_alike_where_the_first_side_has_those_of_the_others_together():
    found = patterns_by_sums(
        PLAN, counts_of([(1, 1), (1, 2), (1, 3)]), [counts_of([(1, 1), (1, 3)]), counts_of([(1, 2)])]
    )
    assert found == {
        (0, 1): (Pattern(0, 1, (1, 1, 0), 2), Pattern(0, 1, (1, 0, 1), 1)),
        # A span without rows has no pattern, and nothing to compare.
        (0, 2): (),
    }


def test_only_the_other_spans_get_a_bucket():
    rows = [(1, 1), (2, 1)]
    alike = patterns_by_sums(PLAN, counts_of(rows), [counts_of([(1, 1)]), ()])
    wanted = comparing(PLAN, besides=alike)
    assert wanted.buckets == ((NO_BUCKET, NO_BUCKET, 0),)
    assert [wanted.has((0, span)) for span in range(_SPANS)] == [False, False, True]


_ROWS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4)), max_size=6)


@given(_ROWS, _ROWS, _ROWS)
def test_sums_say_what_a_comparison_of_all_rows_would_say(
    lake: list[tuple[int, int]], typed: list[tuple[int, int]], aside: list[tuple[int, int]]
):
    found = patterns_by_sums(PLAN, counts_of(lake), [counts_of(typed), counts_of(aside)])
    for span in (1, 2):
        its = [Counter(row for row in rows if row[0] == span) for rows in (lake, typed, aside)]
        assert ((0, span) in found) == (its[0] == its[1] + its[2])
        keys = {each.times: each.keys for each in found.get((0, span), ())}
        if (0, span) in found:
            assert (keys.get((1, 1, 0), 0), keys.get((1, 0, 1), 0)) == (its[1].total(), its[2].total())
