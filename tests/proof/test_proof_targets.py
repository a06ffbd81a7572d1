"""Which numbers of rows a proof wants of a typed table whose ranges were replaced."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Range
from headrace.pipeline.core.ledger.story import Step, story_of
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.proof.evidence import TableLook
from headrace.pipeline.proof.made.checks import made_finding
from headrace.pipeline.proof.made.evidence import MadeEvidence, source_view
from headrace.pipeline.proof.made.rows import compared_rows
from headrace.pipeline.proof.patterns import NO_BUCKET, Pattern, comparing
from headrace.pipeline.proof.spans import plan_rows
from headrace.pipeline.proof.verdict import Check
from tests.lake.samples import a_key

A = a_key(0)
AT = datetime(2026, 1, 31, tzinfo=UTC)


def a_range(
    kind: Kind, upto: int, parsed: int, aside: int, *, after: int | None = None, dropped: int = 0, **told: Any
) -> Range:
    account = Accounting(
        parsed + aside + dropped,
        parsed,
        aside,
        {"filter": dropped} if dropped else {},
        aside=("f.parquet",) if aside else (),
        **told,
    )
    begin = None if after is None else Position(after)
    return Range(kind, A, begin, Position(upto), run="r", claim="c", rows=parsed, account=account.text())


def checks(patterns: tuple[Pattern, ...], *ranges: Range, more: int = 0) -> Sequence[Check]:
    """What a proof says of the rows. `more`: rows that the lake table has more since aggregates were taken apart there."""
    entries = [LedgerEntry(i, i, AT, LedgerPage((each,))) for i, each in enumerate(ranges, start=1)]
    story = story_of(entries)
    at = Positions(shards={A: ranges[0].upto})
    apart = Range(Kind.UNPACKED, A, None, ranges[0].upto, run="r", claim="c", rows=more)
    seen = MadeEvidence(
        table=TableLook(name="typed", story=story, positions=at),
        aside=TableLook(name="aside", story=story_of(entries[:1]), positions=at),
        unpacked={A: (Step(9, 9, apart),)},
    )
    compared = compared_rows(seen, plan_rows(source_view(story), window=ALL), patterns)
    return made_finding(replace(seen, compared=compared)).checks[3:]


def wrong(patterns: tuple[Pattern, ...], *ranges: Range) -> list[str]:
    return [text for check in checks(patterns, *ranges) for text in check.wrong]


def rows_of(parsed: int, aside: int) -> tuple[Pattern, ...]:
    return (Pattern(0, 1, (1, 1, 0), parsed), Pattern(0, 1, (1, 0, 1), aside))


def test_of_rows_that_were_replaced_only_the_new_generation_counts():
    old = a_range(Kind.PARSED, 10, 8, 2)
    new = a_range(Kind.REPLAY, 10, 9, 1, window="w", removed=(8, 2))
    assert wrong(rows_of(9, 1), old, new) == []
    (told,) = wrong(rows_of(8, 2), old, new)
    assert (
        "with rows replaced by snapshot 2: the ledger states 9 rows and 1 set aside, and 8 are in typed"
        in told
    )
    assert wrong(rows_of(8, 2), old) == []


@pytest.mark.parametrize(
    ("replays", "parsed", "is_told"),
    [
        pytest.param([], 2, True, id="not replaced"),
        pytest.param([(2, 1)], 2, True, id="replaced before"),
        pytest.param([(2, 1), (2, 1)], 2, True, id="replaced twice before"),
        pytest.param([(2, 1), (3, 1)], 3, False, id="replaced since"),
    ],
)
def test_user_records_that_were_never_parsed_are_told_though_older_generations_had_dropped_rows(
    replays: Sequence[tuple[int, int]], parsed: int, *, is_told: bool
):
    """The lake table had three rows, of which one was dropped for a reason, and has four since an aggregate was taken apart."""
    before = (2, *(rows for rows, _ in replays))
    ranges = [
        a_range(Kind.REPLAY, 10, rows, 0, dropped=gone, window="w", removed=(was, 0))
        for was, (rows, gone) in zip(before, replays, strict=False)
    ]
    patterns = (Pattern(0, 1, (1, 1, 0), parsed), Pattern(0, 1, (1, 0, 0), 4 - parsed))
    found = checks(patterns, a_range(Kind.PARSED, 10, 2, 0, dropped=1), *ranges, more=1)
    assert [text for check in found for text in check.wrong] == []
    assert any("taken apart" in text for check in found for text in check.unproved) is is_told


def test_buckets_have_whole_ranges_up_to_their_rows():
    ranges = [a_range(Kind.PARSED, 10 * n, 10, 0, after=10 * (n - 1) or None) for n in range(1, 6)]
    entries = [LedgerEntry(n, n, AT, LedgerPage((each,))) for n, each in enumerate(ranges, start=1)]
    found = comparing(plan_rows(source_view(story_of(entries)), window=ALL, proved=1), most=20)
    # The first range was proved before.
    assert found.buckets == ((NO_BUCKET, NO_BUCKET, 0, 0, 1, 1),)
    assert found.reach()[0].startswith("002:10;")


def test_replacements_that_join_all_ranges_of_a_shard_dont_join_the_buckets():
    ranges = [a_range(Kind.PARSED, 10 * n, 10, 0, after=10 * (n - 1) or None) for n in range(1, 6)]
    replays = [
        a_range(Kind.REPLAY, n + 10, 10, 0, after=n, window="w", removed=(10, 0)) for n in (5, 15, 25, 35)
    ]
    entries = [LedgerEntry(n, n, AT, LedgerPage((each,))) for n, each in enumerate(ranges + replays, start=1)]
    plan = plan_rows(source_view(story_of(entries)), window=ALL)
    (cluster,) = plan.clusters
    assert cluster.rows == 50
    # Each range is cut once: ten spans of about five rows.
    assert comparing(plan, most=20).buckets == ((NO_BUCKET, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2),)
