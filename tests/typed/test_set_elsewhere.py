"""Which ranges of a typed table were parsed on a way of the lake table that main has left, on values."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind, LedgerPage, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.set_elsewhere import parsed_elsewhere
from headrace.pipeline.typed.values import PlannedRange, WavePlan

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 17)
A, B = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(2))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ON, OFF, EXPIRED = 1, 2, 3
"""A snapshot to which main leads, one to which it doesn't, and one of which nothing tells any more."""


def a_page(
    snapshot: int, *parsed: tuple[ShardKey, int | None, int, int], kind: Kind = Kind.PARSED
) -> LedgerPage:
    """`parsed`: shard, from, to, rows."""
    ranges = tuple(
        Range(
            kind,
            key,
            None if after is None else Position(after, arrival=NOON),
            Position(upto, arrival=NOON),
            run="r",
            claim="r",
            rows=rows,
            account=Accounting(rows, rows).text(),
        )
        for key, after, upto, rows in parsed
    )
    return LedgerPage(ranges, looked=FilesDone(snapshot, snapshot, snapshot))


def found(moving: ShardKey, *pages: LedgerPage) -> list[tuple[ShardKey, int | None, int | None, int]]:
    plan = WavePlan((PlannedRange(moving, Position(90), Position(99)),))
    ranges = parsed_elsewhere(plan, pages, leads_to=lambda snapshot, _: {ON: True, OFF: False}.get(snapshot))
    return [(r.key, r.after.sequence if r.after else None, r.upto.sequence, r.rows) for r in ranges]


def test_what_was_parsed_since_the_newest_wave_that_looked_at_main_is_one_range_of_each_shard():
    pages = (
        a_page(OFF, (A, 60, 90, 3), (B, 10, 20, 2)),
        a_page(OFF, (A, 50, 60, 4)),
        a_page(ON, (A, None, 50, 9)),
    )
    assert found(A, *pages) == [(A, 50, 90, 7), (B, 10, 20, 2)]


def test_where_main_leads_to_what_the_newest_wave_saw_nothing_was_parsed_elsewhere():
    assert found(A, a_page(ON, (A, 60, 90, 3)), a_page(OFF, (A, None, 60, 9))) == []


def test_a_shard_that_was_behind_while_others_went_on_is_found_when_it_moves():
    pages = (
        a_page(ON, (B, 20, 30, 1)),
        a_page(OFF, (A, 60, 90, 3), (B, 10, 20, 2)),
        a_page(ON, (A, None, 60, 9)),
    )
    assert found(A, *pages) == [(A, 60, 90, 3)]
    assert found(B, *pages) == []


def test_what_was_parsed_before_the_history_of_the_lake_table_begins_counts_as_parsed_on_main():
    assert found(A, a_page(EXPIRED, (A, None, 90, 9))) == []
    assert found(A, a_page(OFF, (A, 60, 90, 3)), a_page(EXPIRED, (A, None, 60, 9))) == [(A, 60, 90, 3)]


def test_a_redrive_has_parsed_nothing_of_the_lake_table():
    redriven = a_page(OFF, (A, 90, 90, 5), kind=Kind.REDRIVEN)
    assert found(A, redriven, a_page(ON, (A, None, 90, 9))) == []
