"""Which ranges of a typed table were parsed on a way of the lake table that main has left, on values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.sort_texts import order_text
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.set_elsewhere import (
    LedgersSeen,
    ParsedElsewhere,
    Way,
    landed_behind,
    looks_before,
    looks_of,
    may_be_passed,
    newest_look,
    parsed_after,
    parsed_back_to,
    parsed_elsewhere,
    standing_ranges,
    way_on,
)
from headrace.pipeline.typed.values import PlannedRange

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 17)
A, B = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(2))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ON, OFF, EXPIRED = 1, 2, 3
"""A snapshot of main, one that main has left, and one of which nothing tells any more."""
WAYS = {ON: Way.MAIN, OFF: Way.LEFT, EXPIRED: Way.UNKNOWN}


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
    ranges = parsed_elsewhere([moving], pages, way_to=lambda snapshot, _: WAYS[snapshot])
    return [
        (r.key, r.after.sequence if r.after else None, r.upto.sequence, r.rows)
        for r in (before.parsed for before in ranges)
    ]


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


def test_what_a_moving_shard_had_parsed_at_expired_snapshots_may_be_parsed_elsewhere():
    pages = (a_page(EXPIRED, (A, 60, 90, 3), (B, 10, 20, 2)), a_page(EXPIRED, (A, None, 60, 9)))
    assert found(A, *pages) == [(A, None, 90, 12)]


@pytest.mark.parametrize(("landed_by", "may"), [(EXPIRED, False), (EXPIRED + 1, True)])
def test_records_behind_an_expired_look_may_be_passed_only_where_they_landed_after_it(
    landed_by: int, *, may: bool
):
    before = ParsedElsewhere(PlannedRange(A, None, Position(90), rows=12), EXPIRED, has_left=False)
    landed = Range(Kind.LANDED, A, Position(60), Position(95), run="r", claim="r", rows=3)
    story = story_of([LedgerEntry(landed_by, landed_by, NOON, LedgerPage((landed,)))])
    assert bool(may_be_passed([before], story)) is may
    assert may_be_passed([replace(before, has_left=True)], story)


@pytest.mark.parametrize(("lost_until", "may"), [(EXPIRED, False), (EXPIRED + 1, True)])
def test_records_may_have_been_passed_where_a_ledger_since_the_look_is_lost(lost_until: int, *, may: bool):
    before = ParsedElsewhere(PlannedRange(A, None, Position(90), rows=12), EXPIRED, has_left=False)
    lost = Lost(lost_until, lost_until, NOON, "the ledgers were expired before they were recorded")
    assert bool(may_be_passed([before], story_of([lost]))) is may


def test_only_what_was_parsed_after_these_positions_is_later_than_they_are():
    parts = (
        PlannedRange(A, Position(60), Position(90), rows=3),
        PlannedRange(A, Position(20), Position(60), rows=4),
        PlannedRange(A, None, Position(20), rows=5),
    )
    before = ParsedElsewhere(PlannedRange(A, None, Position(90), rows=12), OFF, has_left=True, parts=parts)
    (later,) = parsed_after([before], Positions(shards={A: Position(20)}))
    assert (later.parsed, later.parts) == (PlannedRange(A, Position(20), Position(90), rows=7), parts[:2])
    assert parsed_after([before], Positions(shards={B: Position(95)})) == (before,)
    assert parsed_after([before], Positions(shards={A: Position(90)})) == ()


@pytest.mark.parametrize(
    ("snapshot", "sequence", "way"),
    [(50, 5, Way.MAIN), (51, 5, Way.LEFT), (60, 6, Way.LEFT), (90, 9, Way.LEFT), (40, 4, Way.UNKNOWN)],
)
def test_a_snapshot_is_of_main_or_main_has_left_it_or_it_has_expired(snapshot: int, sequence: int, way: Way):
    assert way_on({5: 50, 7: 70}, snapshot, sequence) is way
    assert way_on({}, snapshot, sequence) is Way.UNKNOWN


def test_a_redrive_has_parsed_nothing_of_the_lake_table():
    redriven = a_page(OFF, (A, 90, 90, 5), kind=Kind.REDRIVEN)
    assert found(A, redriven, a_page(ON, (A, None, 90, 9))) == []


def landed(*ranges: tuple[ShardKey, int | None, int, int], kind: Kind = Kind.LANDED) -> Story:
    """`ranges`: shard, after, up to, rows."""
    page = LedgerPage(
        tuple(
            Range(kind, key, None if a is None else Position(a), Position(b), run="r", claim="r", rows=rows)
            for key, a, b, rows in ranges
        )
    )
    return story_of([LedgerEntry(9, 9, NOON, page)])


TARGET = Positions(shards={A: Position(90), B: Position(30)})


def behind(story: Story, look: int = 8) -> dict[ShardKey, str]:
    return landed_behind(TARGET, {A: look, B: look}, story)


def test_records_have_landed_behind_the_position_where_a_range_with_rows_begins_before_it():
    assert behind(landed((A, 60, 95, 3), (A, 40, 60, 1), (B, 30, 50, 9))) == {A: order_text(Position(40))}
    assert behind(landed((B, None, 30, 1))) == {B: ""}
    # A skip brings no row, and aggregates that are taken apart had landed before.
    assert behind(landed((A, 60, 95, 0))) == {}
    assert behind(landed((A, 60, 90, 5), kind=Kind.UNPACKED)) == {}
    # What had landed before the look was parsed as it is.
    assert behind(landed((A, 60, 95, 3)), look=9) == {}


def entries(*pages: LedgerPage) -> list[LedgerEntry | Lost]:
    """The lineage table's, oldest first. `pages`: newest first."""
    return [LedgerEntry(n, n, NOON, page) for n, page in enumerate(reversed(pages))]


def test_what_was_parsed_of_these_shards_goes_back_to_where_the_records_begin():
    pages = (
        a_page(ON, (A, 60, 90, 3), (B, 10, 30, 2)),
        a_page(OFF, (A, 50, 60, 4)),
        a_page(EXPIRED, (A, 20, 50, 9)),
        a_page(EXPIRED, (A, None, 20, 5)),
    )
    looks = looks_of({A}, pages)
    assert looks == {A: ON}
    (before,) = parsed_back_to({A: order_text(Position(40))}, entries(*pages), looks)
    assert (before.parsed.after, before.parsed.rows, before.looked) == (Position(20, arrival=NOON), 16, ON)
    assert may_be_passed([before], Story()) == (before,)
    (before,) = parsed_back_to({A: ""}, entries(*pages), looks)
    assert (before.parsed.after, before.parsed.rows) == (None, 21)
    assert looks_of({A}, ()) == {}, "its snapshots have expired"


def test_a_look_that_expired_was_after_what_landed_before_the_commit_of_the_wave_before_it():
    def entry(number: int, hours: int, *keys: ShardKey) -> LedgerEntry:
        page = a_page(EXPIRED, *((key, number, number + 1, 1) for key in keys))
        return LedgerEntry(number, number, NOON + timedelta(hours=hours), page)

    made = [entry(1, 0, A), entry(2, 4, B), entry(3, 8, A), entry(4, 9, B)]
    lake_table = [entry(n, n, A) for n in range(1, 10)]
    # The clocks of two hosts may be apart, and so an hour more counts as after the look.
    assert looks_before({A, B}, made, lake_table) == {A: 2, B: 6}
    assert looks_before({A, B}, made[:1], lake_table) == {A: 0, B: 0}, "nothing tells when these waves looked"
    lost = Lost(2, 2, NOON + timedelta(hours=7), "the ledgers were expired before they were recorded")
    assert looks_before({A}, [made[0], lost, made[2]], lake_table) == {A: 5}


def test_what_was_parsed_before_a_lost_ledger_isnt_compared():
    """A number of rows that is too small would look like rows that were passed over."""
    looks = {A: ON}
    old, new = entries(a_page(ON, (A, 60, 90, 3)), a_page(EXPIRED, (A, None, 20, 5)))
    lost = Lost(0, 0, NOON, "the ledgers were expired before they were recorded")
    (before,) = parsed_back_to({A: ""}, (old, lost, new), looks)
    assert (before.parsed.after, before.parsed.rows) == (Position(60, arrival=NOON), 3)


def test_only_shards_of_which_both_tables_are_at_one_position_stand():
    parsed = entries(a_page(ON, (A, None, 90, 3), (B, None, 30, 2)))
    elsewhere = parsed_back_to({A: "", B: ""}, parsed, {A: ON, B: ON})
    (standing,) = standing_ranges(elsewhere, Positions(shards={A: Position(90), B: Position(31)}), TARGET)
    assert standing == PlannedRange(A, Position(90), Position(90))
    assert standing_ranges(elsewhere, Positions(), TARGET) == ()


def test_ledgers_are_new_above_the_newest_look_of_a_commit_or_of_this_process():
    newest = newest_look([LedgerPage(), a_page(ON), a_page(OFF)])
    assert newest is not None
    assert newest.snapshot == ON
    back = a_page(ON, (A, 90, 90, 0), kind=Kind.REPOSITION)
    assert newest_look([back, a_page(ON)]) is None, "a person has set the typed table back"

    def above(snapshot: int, way: Way) -> int:
        return LedgersSeen(snapshot, snapshot).above(newest, lambda _, __: way)

    assert [above(7, Way.MAIN), above(7, Way.LEFT), above(7, Way.UNKNOWN), above(0, Way.MAIN)] == [7, 1, 1, 1]
