"""What a window reads from the stream, and when: planning on values."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.windows.copy_plan import is_done, stretches_of, why_not, wishes_of
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.stretches import Reach
from headrace.pipeline.windows.window import ReplayWindow, Stretch, WindowRange
from tests.windows.test_window import (
    CHILD,
    HOUR,
    NOON,
    ORIGINS,
    STREAM,
    A,
    a_range,
    a_window,
    at,
    made,
    story,
)

DAY = timedelta(days=1)
HAS_ALL = {STREAM: Reach(DAY, NOON + 10 * HOUR)}
CREATED = datetime.fromtimestamp(STREAM.epoch, UTC)
LANDED = a_range(A, None, at(10), hour=0)
FOREIGN = a_range(
    A,
    replace(at(10), arrival=NOON + HOUR / 2),
    replace(at(20), arrival=NOON + 2 * HOUR),
    rows=0,
    kind=Kind.FOREIGN,
)
LATER = a_range(A, at(20), at(30), hour=3)


def test_a_range_that_didnt_land_is_read_from_the_stream_and_its_rows_arent_known():
    found = made(story(LANDED, FOREIGN, LATER), ALL, reaches=HAS_ALL)
    (its,) = found.ranges
    stretch = Stretch(FOREIGN.after, FOREIGN.upto, NOON + HOUR / 2, NOON + 2 * HOUR)
    assert (its.stretches, its.rows, found.missing) == ((stretch,), 20, ())
    assert made(story(LANDED, FOREIGN, LATER), ALL).ranges[0].stretches == ()


def test_a_window_may_begin_or_end_with_such_a_range():
    (its,) = made(story(LANDED, FOREIGN), Arrivals(NOON + HOUR, None), reaches=HAS_ALL).ranges
    assert (its.after, its.upto, its.rows) == (FOREIGN.after, FOREIGN.upto, 0)
    assert made(story(LANDED, FOREIGN), Arrivals(NOON + HOUR, None)).ranges == ()


def test_without_arrivals_of_its_own_a_range_is_placed_before_the_next_landed_one():
    skipped = a_range(A, at(10), at(20), rows=0, kind=Kind.SKIPPED)
    told = story(LANDED, skipped, LATER)
    (its,) = made(told, Arrivals(NOON + 3.2 * HOUR, None), reaches=HAS_ALL).ranges
    assert (its.after, its.stretches) == (at(20), ())
    (its,) = made(told, Arrivals(NOON + 2 * HOUR, None), reaches=HAS_ALL).ranges
    assert its.after == at(10)


@pytest.mark.parametrize(
    ("reach", "why"),
    [
        (None, "deleted since, or created again"),
        (Reach(DAY, NOON, frozenset({A.shard_id})), "Kinesis has forgotten the shard"),
        (Reach(DAY, NOON + 27 * HOUR), "the records have left the stream, which keeps records for 24 h"),
    ],
)
def test_what_kinesis_doesnt_have_is_out_of_reach_and_the_reason_is_told(reach: Reach | None, why: str):
    found = made(story(LANDED, FOREIGN, LATER), ALL, reaches={STREAM: reach} if reach else {})
    assert found.ranges[0].stretches == ()
    (missing,) = found.missing
    assert "these records, and they aren't in the lake table" in missing
    assert why in missing


def test_a_range_of_which_a_part_has_left_the_stream_is_read_and_the_part_is_told():
    found = made(story(LANDED, FOREIGN, LATER), ALL, reaches={STREAM: Reach(DAY, NOON + 25 * HOUR)})
    assert len(found.ranges[0].stretches) == 1
    (missing,) = found.missing
    assert "arrived between 2026-01-31 12:30:00Z and 2026-01-31 13:00:01Z may have left the stream" in missing


def test_records_of_a_skipped_range_that_landed_after_all_are_copied():
    again = a_range(A, at(8), at(25), hour=2)
    moved = a_range(A, at(20), at(8), rows=0, kind=Kind.REPOSITION)
    (its,) = made(story(LANDED, FOREIGN, moved, again), Numbers(A.shard_id), reaches=HAS_ALL).ranges
    assert its.stretches == ()


def test_a_removed_day_is_read_only_if_kinesis_has_all_of_it():
    kept = date(2026, 2, 1)
    (its,) = made(story(LANDED, LATER), ALL, kept_from=kept, reaches=HAS_ALL).ranges
    assert ([(each.after, each.upto) for each in its.stretches], its.rows) == (
        [(None, at(10)), (at(20), at(30))],
        0,
    )
    for asked in (NOON + 24.25 * HOUR, NOON + 26 * HOUR):
        found = made(story(LANDED, LATER), ALL, kept_from=kept, reaches={STREAM: Reach(DAY, asked)})
        assert [each.upto for each in found.ranges[0].stretches] == [at(30)]
        (missing,) = found.missing
        assert "10 rows of 1 range arrived before 2026-02-01" in missing


def test_records_from_before_the_applications_start_are_read_with_the_first_range():
    began = {STREAM: replace(HAS_ALL[STREAM], began=NOON)}
    (its,) = made(story(LANDED, LATER), ALL, reaches=began).ranges
    assert its.stretches == (Stretch(None, at(10), CREATED, NOON + HOUR / 2),)
    after_a_parent = replace(LANDED, parents=(ParentReason("shardId-7", ParentIs.ENDED),))
    assert made(story(after_a_parent, LATER), ALL, reaches=began).ranges[0].stretches == ()
    long_ago = {STREAM: Reach(DAY, NOON + 25 * HOUR, began=NOON)}
    found = made(story(LANDED, LATER), ALL, reaches=long_ago)
    assert (found.ranges[0].stretches, found.missing) == ((), ())


def test_the_cost_of_the_stream_is_told_as_an_upper_bound():
    hour = Stretch(at(10), at(20), NOON, NOON + HOUR)
    window = a_window(WindowRange(A, None, at(30), stretches=(hour,)))
    assert window.stream_cost(0.2) == (
        "from the stream: 1 range of 1 shard, with records that arrived from 2026-01-31 12:00:00Z to 2026-01-31 13:00:00Z. How many records "
        "these are isn't known before they are read: at most 3,774,873,600 bytes, which takes at most 9,000 s with 20% of each shard's limits"
    )
    assert a_window(WindowRange(A, None, at(30))).stream_cost(0.2) == ""


# --- what a wave takes --------------------------------------------------------------------------------------------


GAP = Stretch(at(10), at(20), NOON)
MIXED = WindowRange(A, None, at(30), stretches=(GAP,))


def wave_at(window: ReplayWindow, *stands: Position | None) -> tuple[list[Position | None], list[Stretch]]:
    """Up to where rows are copied next, and what is read from the stream."""
    shards = {each.key: p for each, p in zip(window.ranges, stands, strict=True) if p is not None}
    wishes, stretches = (
        wishes_of(window, Positions(shards=shards)),
        stretches_of(window, Positions(shards=shards)),
    )
    assert not {each.key for each in wishes.wanted} & stretches.keys()
    assert wishes.has_waiting or not stretches
    return [each.upto for each in wishes.wanted], list(stretches.values())


@pytest.mark.parametrize(
    ("stands", "copied", "read"),
    [
        (None, [at(10)], []),
        (at(5), [at(10)], []),
        (at(10), [], [GAP]),
        (at(15), [], [GAP]),
        (at(20), [at(30)], []),
        (at(25), [at(30)], []),
        (at(30), [], []),
    ],
)
def test_rows_are_copied_up_to_a_stretch_and_after_it(
    stands: Position | None, copied: list[Position], read: list[Stretch]
):
    assert wave_at(a_window(MIXED), stands) == (copied, read)


def test_a_wave_before_a_stretch_isnt_the_last_one():
    assert wishes_of(a_window(MIXED), Positions(shards={A: at(5)})).has_waiting
    assert not wishes_of(a_window(MIXED), Positions(shards={A: at(20)})).has_waiting


def test_a_stretch_up_to_an_end_is_open_until_the_shard_has_ended():
    ended = at(10, ended=True)
    window = a_window(WindowRange(A, None, ended, stretches=(Stretch(at(10), ended, NOON),)))
    (each,) = window.ranges
    for stands in (at(10), at(25)):
        assert wave_at(window, stands)[1] == [each.stretches[0]]
        assert list(why_not(window, Positions(ORIGINS, {A: ended}), Positions(shards={A: stands}))) == []
        assert not is_done(each, Positions(shards={A: stands}))
    assert is_done(each, Positions(shards={A: at(25, ended=True)}))


def test_a_child_waits_for_what_is_read_of_its_parent():
    ended = at(10, ended=True)
    parent = WindowRange(A, None, ended, stretches=(Stretch(at(10), ended, NOON),))
    child = WindowRange(CHILD, None, at(40), parents=(A.shard_id,), stretches=(Stretch(None, at(40), NOON),))
    window = a_window(parent, child)
    assert wave_at(window, at(10), None) == ([], [parent.stretches[0]])
    assert wave_at(window, at(25, ended=True), None) == ([], [child.stretches[0]])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8, unique=True), st.integers(1, 12))
def test_waves_of_any_size_take_each_record_once_from_the_right_place(cuts: list[int], step: int):
    bounds = sorted({0, *cuts, 61})
    pieces = list(pairwise(bounds))
    stretches = tuple(Stretch(at(low) if low else None, at(high), NOON) for low, high in pieces[::2])
    window = a_window(WindowRange(A, None, at(61), stretches=stretches))
    stands, took = None, list[tuple[int, bool]]()
    while not is_done(window.ranges[0], Positions(shards={A: stands} if stands else {})):
        (copied, read) = wave_at(window, stands)
        goal = read[0].upto if read else copied[0]
        begin = (stands.sequence or 0) if stands else 0
        end = min(begin + step, (goal.sequence if goal else None) or 0)
        assert end > begin
        took += [(number, bool(read)) for number in range(begin + 1, end + 1)]
        stands = at(end)
    wanted = {n: i % 2 == 0 for i, (low, high) in enumerate(pieces) for n in range(low + 1, high + 1)}
    assert took == sorted(wanted.items())
