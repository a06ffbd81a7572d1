"""Windows over ranges that overlap: records that landed twice, aggregates that were taken apart, and ranges that are read from the stream."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.windows.make import Numbers, OfSnapshot, grown, twice_in
from headrace.pipeline.windows.stretches import Reach
from tests.windows.test_window import HOUR, NOON, STREAM, A, B, a_range, a_window, at, made, story

DAY = timedelta(days=1)
LAST_SUB = 2**63 - 1
AGAIN = story(
    a_range(A, None, at(20)),
    a_range(A, at(20), at(10), rows=0, kind=Kind.REPOSITION),
    a_range(A, at(10), at(20)),
    a_range(A, at(20), at(30)),
    a_range(B, None, at(20)),
)


@pytest.mark.parametrize(
    ("numbers", "is_twice"), [((None, None), True), ((1, 10), False), ((11, 20), True), ((21, 30), False)]
)
def test_a_window_says_which_shards_have_records_of_it_twice(
    *, numbers: tuple[int | None, int | None], is_twice: bool
):
    found = made(AGAIN, Numbers(A.shard_id, *numbers))
    assert found.twice == ((A,) if is_twice else ())
    assert twice_in(a_window(*found.ranges), AGAIN) == found.twice


def test_each_shard_is_judged_by_its_own_ranges():
    assert made(AGAIN, ALL).twice == (A,)
    assert made(AGAIN, OfSnapshot(4)).twice == ()


def test_a_record_that_landed_in_parts_may_be_twice_by_its_user_records():
    again = story(a_range(A, None, at(10, 3)), a_range(A, at(10, 1), at(10, 3)))
    assert made(again, ALL).twice == (A,)


def test_what_landed_twice_outside_of_the_window_is_no_matter_of_it():
    again = story(a_range(A, None, at(20)), a_range(A, at(5), at(8)))
    assert made(again, Numbers(A.shard_id, 10, 20)).twice == ()
    assert made(again, Numbers(A.shard_id, 1, 4)).twice == ()
    # A person moved the position back, and the older records landed later.
    assert made(story(a_range(A, at(10), at(20)), a_range(A, None, at(10))), ALL).twice == ()


def test_the_oldest_day_is_that_of_the_first_copied_row():
    told = story(
        a_range(A, None, at(10), rows=0, kind=Kind.FOREIGN),
        a_range(A, at(10), at(20), hour=48),
        a_range(A, at(20), at(30), hour=72),
        a_range(B, None, at(5), hour=24),
        # Rows of aggregates that were taken apart arrived with the range that brought the aggregates.
        replace(a_range(A, at(10), at(20), rows=5, kind=Kind.UNPACKED), first_arrival=None),
    )
    assert made(told, ALL).oldest_day == (NOON + DAY).date()
    assert made(told, Numbers(A.shard_id)).oldest_day == (NOON + 2 * DAY).date()
    assert (
        made(story(a_range(A, None, at(5)), a_range(B, None, at(5), hour=24)), ALL).oldest_day == NOON.date()
    )
    assert made(told, Numbers(A.shard_id, 21)).oldest_day == (NOON + 3 * DAY).date()


def test_a_cut_window_grows_until_no_range_is_cut():
    told = story(
        a_range(A, None, at(10)),
        a_range(A, at(10), at(20)),
        a_range(A, at(20), at(30)),
        a_range(A, at(8), at(15), rows=4, kind=Kind.UNPACKED),
    )
    cut = made(told, Numbers(A.shard_id, 2, 9))
    (found,) = grown(a_window(*cut.ranges), told).ranges
    assert (found.after, found.upto, found.rows, found.is_whole) == (None, at(20), 24, True)


@pytest.mark.parametrize(
    ("apart", "rows", "is_whole"),
    [
        ((None, at(10)), 25, True),
        ((at(10), at(20)), 25, True),
        ((at(10), at(30)), 25, False),
        ((at(20), at(30)), 20, True),
    ],
)
def test_where_only_a_part_of_the_aggregates_that_were_taken_apart_is_in_the_window_its_rows_are_an_upper_bound(
    *, apart: tuple[Position | None, Position], rows: int, is_whole: bool
):
    told = story(
        a_range(A, None, at(10)),
        a_range(A, at(10), at(20)),
        a_range(A, at(20), at(30)),
        a_range(A, *apart, rows=5, kind=Kind.UNPACKED),
    )
    both = replace(told, steps={A: told.steps[A][:2]})
    (found,) = made(both, ALL).ranges
    assert (found.upto, found.rows, found.is_whole) == (at(20), rows, is_whole)


@pytest.mark.parametrize(("begins", "is_whole"), [(5, False), (10, True)])
def test_where_the_window_begins_within_aggregates_that_were_taken_apart_its_rows_are_an_upper_bound(
    *, begins: int, is_whole: bool
):
    told = story(
        a_range(A, None, at(10)),
        a_range(A, at(10), at(20)),
        a_range(A, at(begins), at(20), rows=5, kind=Kind.UNPACKED),
    )
    (found,) = made(told, OfSnapshot(2)).ranges
    assert (found.after, found.rows, found.is_whole) == (at(10), 15, is_whole)


@pytest.mark.parametrize(
    ("apart", "is_whole"), [((None, at(10)), False), ((at(5), at(12)), False), ((at(10), at(20)), True)]
)
def test_where_aggregates_are_read_from_the_stream_again_the_rows_are_an_upper_bound(
    *, apart: tuple[Position | None, Position], is_whole: bool
):
    told = story(
        a_range(A, None, at(10), hour=0),
        a_range(A, at(10), at(20), hour=48),
        a_range(A, *apart, rows=5, kind=Kind.UNPACKED),
    )
    reaches = {STREAM: Reach(3 * DAY, NOON + 50 * HOUR)}
    (found,) = made(told, ALL, kept_from=(NOON + DAY).date(), reaches=reaches).ranges
    assert [(each.after, each.upto) for each in found.stretches] == [(None, at(10))]
    assert found.is_whole is is_whole


def test_a_window_by_numbers_takes_a_range_of_the_stream_from_its_beginning_and_no_other():
    foreign = a_range(
        A, replace(at(10), arrival=NOON), replace(at(20), arrival=NOON + HOUR), rows=0, kind=Kind.FOREIGN
    )
    told = story(a_range(A, None, at(10)), foreign, a_range(A, at(20), at(30), hour=3))
    reaches = {STREAM: Reach(DAY, NOON + 10 * HOUR)}
    begins = {
        first: made(told, Numbers(A.shard_id, first), reaches=reaches).ranges[0].after
        for first in (8, 11, 15, 20, 21)
    }
    assert begins == {
        8: at(7, LAST_SUB),
        11: foreign.after,
        15: foreign.after,
        20: foreign.after,
        21: at(20, LAST_SUB),
    }


def test_aggregates_before_what_is_read_from_the_stream_are_copied_as_a_whole():
    told = story(
        a_range(A, None, at(10)),
        a_range(A, at(10), at(20), rows=0, kind=Kind.FOREIGN),
        a_range(A, None, at(10), rows=5, kind=Kind.UNPACKED),
    )
    (found,) = made(told, ALL, reaches={STREAM: Reach(DAY, NOON + 10 * HOUR)}).ranges
    assert (len(found.stretches), found.rows, found.is_whole) == (1, 15, True)


def test_a_window_by_numbers_may_have_nothing_but_records_of_the_stream():
    told = story(
        a_range(A, None, at(10)), a_range(A, at(10), replace(at(20), arrival=NOON), rows=0, kind=Kind.FOREIGN)
    )
    reaches = {STREAM: Reach(DAY, NOON + 10 * HOUR)}
    (found,) = made(told, Numbers(A.shard_id, 15), reaches=reaches).ranges
    assert (found.after, found.upto.sequence, found.rows) == (at(10), 20, 0)


def test_a_time_before_the_application_began_takes_the_first_range_of_a_shard():
    told, asked = story(a_range(A, None, at(10))), Arrivals(NOON - 3 * HOUR, NOON - 2 * HOUR)
    reach = Reach(DAY, NOON + HOUR, began=NOON - HOUR)
    (found,) = made(told, asked, reaches={STREAM: reach}).ranges
    assert [(each.after, each.upto) for each in found.stretches] == [(None, at(10))]
    assert made(told, asked, reaches={STREAM: replace(reach, began=None)}).ranges == ()


def test_a_whole_window_counts_the_rows_of_aggregates_that_were_taken_apart_since_it_was_made():
    landings = (a_range(A, None, at(10)), a_range(A, at(10), at(20)))
    window = a_window(*made(story(*landings), OfSnapshot(1)).ranges)
    told = story(*landings, a_range(A, None, at(10), rows=5, kind=Kind.UNPACKED))
    assert [each.rows for each in window.ranges] == [10]
    assert [each.rows for each in grown(window, told).ranges] == [15]
    assert grown(window, story(*landings)) == window
