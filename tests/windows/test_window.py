"""Windows are made of ledgers: which range of each shard they have, what they cost, and what of them is out of reach."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.ledger import (
    Kind,
    LedgerEntry,
    LedgerPage,
    Lost,
    ParentIs,
    ParentReason,
    Range,
)
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.core.shards.sort_texts import end_of, record_of, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.values import Wanted, Wishes
from headrace.pipeline.typed.window_edges import WindowEdges
from headrace.pipeline.windows.copy_plan import (
    beginnings,
    edges_of,
    is_done,
    lacks_position,
    why_not,
    wishes_of,
)
from headrace.pipeline.windows.make import (
    Asked,
    Made,
    Numbers,
    OfRun,
    OfSnapshot,
    make_window,
    origins_of,
    part_of_window,
)
from headrace.pipeline.windows.stretches import Reach
from headrace.pipeline.windows.window import ReplayWindow, WindowRange

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
A, B, CHILD = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(3))
ORIGINS = {STREAM: Origin(Start(), NOON)}


def at(sequence: int, sub: int = 0, *, ended: bool = False) -> Position:
    return Position(sequence, sub, ended=ended)


def a_range(
    key: ShardKey,
    after: Position | None,
    upto: Position,
    *,
    hour: int = 0,
    rows: int = 10,
    kind: Kind = Kind.LANDED,
    run: str = "r",
    parents: tuple[ParentReason, ...] = (),
) -> Range:
    first, last = (NOON + hour * HOUR, NOON + hour * HOUR + HOUR / 2) if rows else (None, None)
    return Range(
        kind,
        key,
        after,
        upto,
        run=run,
        claim=run,
        rows=rows,
        bytes=rows * 100,
        first_arrival=first,
        last_arrival=last,
        parents=parents,
    )


def story(*ranges: Range, lost: tuple[int, ...] = ()) -> Story:
    """Each range in a snapshot of its own: 1, 2, and so on."""
    entries: list[LedgerEntry | Lost] = [
        LedgerEntry(number, number, NOON, LedgerPage((each,))) for number, each in enumerate(ranges, start=1)
    ]
    entries += [Lost(number, number, NOON, "lost") for number in lost]
    return story_of(sorted(entries, key=lambda entry: entry.sequence))


def made(told: Story, asked: Asked, **how: object) -> Made:
    return make_window(told, asked, takes=lambda _: True, **how)  # type: ignore[arg-type]


CHAIN = (
    a_range(A, None, at(10), hour=0, run="r1"),
    a_range(A, at(10), at(20), hour=1, run="r2"),
    a_range(A, at(20), at(30), hour=2, run="r1"),
    a_range(A, at(30), at(40), hour=3, run="r3"),
)


def test_a_time_takes_each_range_with_a_record_of_that_time_as_a_whole():
    (found,) = made(story(*CHAIN), Arrivals(NOON + 1.2 * HOUR, NOON + 2.1 * HOUR)).ranges
    assert (found.after, found.upto, found.rows, found.bytes, found.is_whole) == (
        at(10),
        at(30),
        20,
        2000,
        True,
    )


def test_a_time_without_an_end_takes_all_ranges_since_then():
    (found,) = made(story(*CHAIN), Arrivals(NOON + HOUR, None)).ranges
    assert (found.after, found.upto) == (at(10), at(40))


def test_a_snapshot_takes_what_it_landed():
    (found,) = made(story(*CHAIN), OfSnapshot(2)).ranges
    assert (found.after, found.upto, found.rows) == (at(10), at(20), 10)


def test_a_run_takes_what_lies_between_its_ranges_too():
    (found,) = made(story(*CHAIN), OfRun("r1")).ranges
    assert (found.after, found.upto, found.rows) == (None, at(30), 30)


def test_numbers_cut_a_range_and_the_window_says_that_its_rows_are_an_upper_bound():
    (found,) = made(story(*CHAIN), Numbers(A.shard_id, 15, 25)).ranges
    assert (found.rows, found.is_whole) == (20, False)
    assert found.after == at(14, 2**63 - 1)
    assert found.upto == at(25, 2**63 - 1)


def test_numbers_beyond_what_has_landed_end_where_the_landed_records_end():
    (found,) = made(story(*CHAIN), Numbers(A.shard_id, 1, 10**56)).ranges
    assert (found.after, found.upto, found.rows, found.is_whole) == (at(0, 2**63 - 1), at(40), 40, False)
    assert made(story(*CHAIN), Numbers(A.shard_id, 41)).ranges == ()
    assert made(story(*CHAIN), Numbers(A.shard_id)).ranges[0].is_whole


def test_numbers_that_end_with_a_landing_have_nothing_of_what_follows():
    skipped = a_range(A, at(20, 3), at(30), rows=0, kind=Kind.SKIPPED)
    told = story(CHAIN[0], a_range(A, at(10), at(20, 3)), skipped, CHAIN[3])
    for last, rows in ((10, 10), (20, 20)):
        its = made(told, Numbers(A.shard_id, None, last))
        assert (its.ranges[0].rows, its.ranges[0].is_whole, its.missing) == (rows, True, ())
    assert len(made(told, Numbers(A.shard_id, None, 21)).missing) == 1
    # Another program may have read a part of the last record only.
    told = story(CHAIN[0], a_range(A, at(10), at(20, 3), rows=0, kind=Kind.FOREIGN), CHAIN[3])
    reaches = {STREAM: Reach(timedelta(days=1), NOON)}
    assert made(told, Numbers(A.shard_id, None, 20), reaches=reaches).ranges[0].upto == at(20, 2**63 - 1)


def test_only_shards_that_are_asked_for_are_taken():
    told = story(*CHAIN, a_range(B, None, at(5)))
    assert [each.key for each in make_window(told, ALL, takes=lambda key: key == B).ranges] == [B]
    assert [each.key for each in made(told, Numbers(A.shard_id)).ranges] == [A]


def test_ranges_whose_records_arent_in_the_lake_table_are_told():
    told = story(
        a_range(A, None, at(10), hour=0),
        a_range(A, at(10), at(20), rows=0, kind=Kind.FOREIGN),
        replace(a_range(A, at(20), at(30), rows=0, kind=Kind.SKIPPED), why="they left the stream"),
        a_range(A, at(30), at(40), hour=3),
        a_range(A, at(40), at(50), rows=0, kind=Kind.SKIPPED),
    )
    missing = made(told, ALL).missing
    assert ["worker that isn't Headrace's" in missing[0], "they left the stream" in missing[1]] == [
        True,
        True,
    ]
    assert len(missing) == 2
    assert made(told, OfSnapshot(4)).missing == ()


def test_a_lost_part_of_the_ledgers_within_the_window_is_told():
    # Snapshot 3 is lost; the ranges were landed by snapshots 1, 2 and 4.
    told = story_of(
        LedgerEntry(n, n, NOON, LedgerPage((each,))) if each else Lost(n, n, NOON, "lost")
        for n, each in enumerate((CHAIN[0], CHAIN[1], None, CHAIN[3]), start=1)
    )
    assert "is lost" in made(told, ALL).missing[0]
    assert made(told, Arrivals(None, NOON + HOUR)).missing == ()


def test_rows_that_the_retention_may_have_removed_are_told():
    made_ = made(story(*CHAIN), ALL, kept_from=(NOON + timedelta(days=2)).date())
    assert made_.missing[0] == (
        f"{A}: 40 rows of 4 ranges arrived before 2026-02-02, the first day that the retention keeps; what upkeep has removed "
        "of them can't be read from the lake table"
    )
    assert made(story(*CHAIN), ALL, kept_from=(NOON - timedelta(days=2)).date()).missing == ()


def test_what_is_out_of_reach_is_told_of_each_shard():
    told = story(
        *(
            each
            for key in (A, B)
            for each in (
                a_range(key, None, at(10)),
                a_range(key, at(10), at(20), rows=0, kind=Kind.FOREIGN),
                a_range(key, at(20), at(30)),
            )
        )
    )
    assert [each.split(" after")[0] for each in made(told, ALL).missing] == [str(A), str(B)]
    assert made(told, ALL).missing[0].endswith("they aren't in the lake table")


def test_a_lost_part_just_before_the_windows_first_range_is_told_and_an_earlier_one_isnt():
    for lost, count in ((2, 1), (1, 0)):
        assert len(made(story(*CHAIN, lost=(lost,)), OfSnapshot(2)).missing) == count


def test_a_position_that_a_person_moved_back_makes_one_range_from_the_lowest_to_the_highest():
    told = story(
        a_range(A, at(10), at(20)),
        a_range(A, at(20), at(5), rows=0, kind=Kind.REPOSITION),
        a_range(A, at(5), at(15)),
    )
    (found,) = made(told, ALL).ranges
    assert (found.after, found.upto, found.rows) == (at(5), at(20), 20)


def test_numbers_before_the_first_landed_range_begin_with_it():
    told = story(a_range(A, at(100), at(110)), a_range(A, at(110), at(120, ended=True)))
    (found,) = made(told, Numbers(A.shard_id, 50, 120)).ranges
    assert (found.after, found.upto, found.is_whole) == (at(100), at(120, ended=True), True)
    (later,) = made(told, Numbers(A.shard_id, 111)).ranges
    assert later.is_whole is False


def test_numbers_with_nothing_between_them_have_no_window():
    assert made(story(*CHAIN), Numbers(A.shard_id, 16, 15)).ranges == ()


def test_ranges_that_were_derived_from_rows_belong_to_a_window_too():
    told = story_of([Lost(1, 1, NOON, "lost", (a_range(A, None, at(10)),))])
    (found,) = made(told, ALL).ranges
    assert (found.after, found.upto, found.rows, found.parents) == (None, at(10), 10, ())


def test_a_child_names_the_parents_that_belong_to_the_window():
    told = story(
        a_range(A, None, at(10), hour=0),
        a_range(B, None, at(11), hour=5),
        a_range(
            CHILD,
            None,
            at(20),
            hour=0,
            parents=(ParentReason(A.shard_id, ParentIs.ENDED), ParentReason(B.shard_id, ParentIs.ENDED)),
        ),
    )
    by_key = {each.key: each for each in made(told, Arrivals(NOON, NOON + HOUR)).ranges}
    assert by_key.keys() == {A, CHILD}
    assert by_key[CHILD].parents == (A.shard_id,)


@example(cuts=[1], first=0, last=None)
@given(
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=8, unique=True).map(sorted),
    first=st.none() | st.integers(0, 65),
    last=st.none() | st.integers(0, 65),
)
def test_a_window_by_numbers_has_exactly_the_landed_records_between_them(
    cuts: list[int], first: int | None, last: int | None
):
    """Each number up to the last cut is a record with two user records."""
    ends = [at(each, 1) for each in cuts]
    ranges = [a_range(A, a, b) for a, b in zip([None, *ends[:-1]], ends, strict=True)]
    low, high = 0 if first is None else first, cuts[-1] if last is None else min(last, cuts[-1])
    wanted = {(n, sub) for n in range(cuts[-1] + 1) for sub in (0, 1) if low <= n <= high}
    found = made(story(*ranges), Numbers(A.shard_id, first, last)).ranges
    rows = {(n, sub) for each in found for n in range(70) for sub in (0, 1) if _has(each, n, sub)}
    assert rows == wanted


def _has(each: WindowRange, number: int, sub: int) -> bool:
    """As Spark chooses rows: above the low end, and below the high end."""
    key = f"{record_of(number)}:{sub:019}"
    return sort_key_of(each.after) < key < end_of(each.upto)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=10), st.integers(0, 6), st.integers(1, 6))
def test_no_record_of_the_asked_time_is_outside_of_the_window(hours: list[int], since: int, length: int):
    ends = [at((n + 1) * 10) for n in range(len(hours))]
    ranges = [
        a_range(A, a, b, hour=hour)
        for a, b, hour in zip([None, *ends[:-1]], ends, sorted(hours), strict=True)
    ]
    until = since + length
    found = made(story(*ranges), Arrivals(NOON + since * HOUR, NOON + until * HOUR)).ranges
    for each in ranges:
        if since <= (each.first_arrival - NOON) / HOUR < until:  # type: ignore[operator]
            assert _has(found[0], each.upto.sequence or 0, 0)
    if not any(since <= hour < until for hour in hours):
        assert found == ()


def test_the_cost_is_told_in_rows_bytes_and_time():
    part = WindowRange(A, None, at(10), rows=3_600_000, bytes=36_000_000)
    assert a_window(part).cost() == (
        "1 shard of 1 stream, 3,600,000 rows, 36,000,000 bytes of Kinesis records, about 20 s of CPU to copy"
    )
    assert replace(a_window(part), target="orders").cost().endswith("s of CPU to read, and more to parse")
    assert replace(a_window(part), unpack=True).cost().endswith("s of CPU to look through and rewrite")
    large = a_window(replace(part, bytes=3_600_000_000, is_whole=False))
    assert "at most 3,600,000 rows" in large.cost()
    assert "about 100 s of CPU" in large.cost()


# --- what a wave takes --------------------------------------------------------------------------------------------


def a_window(*ranges: WindowRange) -> ReplayWindow:
    return ReplayWindow(id="w", application="app", made=NOON, by="me", how="all", ranges=ranges)


PARENT = WindowRange(A, at(10), at(20))
YOUNG = WindowRange(CHILD, None, at(40), parents=(A.shard_id,))


def test_the_table_of_a_window_begins_where_the_window_does():
    assert beginnings(a_window(PARENT, YOUNG), Positions(), run="r") == (
        Range(Kind.COPIED, A, None, at(10), run="r", claim="r", why="the window begins here"),
    )
    assert beginnings(a_window(PARENT), Positions(shards={A: at(12)}), run="r") == ()
    # A ledger has room for one of both.
    assert beginnings(a_window(PARENT), Positions(), run="r", account="an account") == (
        Range(Kind.COPIED, A, None, at(10), run="r", claim="r", account="an account"),
    )


def test_a_wave_of_a_window_may_cut_ranges_where_the_window_begins_and_ends():
    assert edges_of(a_window(PARENT, YOUNG)) == WindowEdges({A: at(10)}, {A: at(20), CHILD: at(40)})


def test_the_ledgers_of_a_window_are_those_of_ranges_that_lie_in_it_as_a_whole():
    before, first, last = a_range(A, at(5), at(15)), a_range(A, at(10), at(15)), a_range(A, at(15), at(20))
    behind, beside = a_range(A, at(18), at(21)), a_range(B, None, at(20))
    whole = story(before, first, last, behind, beside)
    steps = {step.range: step for step in (*whole.of(A), *whole.of(B))}
    expected = replace(whole, steps={A: (steps[first], steps[last]), CHILD: ()})
    assert part_of_window(whole, a_window(PARENT, YOUNG)) == expected


def test_the_origins_of_ledgers_are_those_of_all_that_can_be_read():
    other = StreamId(STREAM.arn, STREAM.epoch + 1)
    origin = Origin(Start(), NOON + HOUR)
    entries: list[LedgerEntry | Lost] = [
        LedgerEntry(1, 1, NOON, LedgerPage(origins=((STREAM, ORIGINS[STREAM]),))),
        Lost(2, 2, NOON, "lost"),
        LedgerEntry(3, 3, NOON, LedgerPage(origins=((other, origin),))),
    ]
    assert origins_of(entries) == ORIGINS | {other: origin}


def test_a_child_waits_until_its_parents_part_of_the_window_is_copied():
    window = a_window(PARENT, YOUNG)
    at_15 = f"{record_of(15)}:{0:019}"
    assert wishes_of(window, Positions(shards={A: at(15)})) == Wishes(
        (Wanted(A, at(15), at(20), floor=at_15),), has_waiting=True, streams=(STREAM,), only_wanted=True
    )
    assert wishes_of(window, Positions(shards={A: at(20)})) == Wishes(
        (Wanted(CHILD, None, at(40), floor=""),), streams=(STREAM,), only_wanted=True
    )
    done = Positions(shards={A: at(20), CHILD: at(40)})
    assert wishes_of(window, done) == Wishes(streams=(STREAM,), only_wanted=True)


def test_a_shard_of_another_life_with_the_parents_name_isnt_waited_for():
    other = StreamId(STREAM.arn, STREAM.epoch + 1)
    window = a_window(WindowRange(ShardKey(other, A.shard_id), None, at(20)), YOUNG)
    assert {each.key for each in wishes_of(window, Positions()).wanted} == {
        each.key for each in window.ranges
    }


def test_a_window_is_done_only_at_its_very_end():
    assert not is_done(PARENT, Positions(shards={A: at(20, ended=True)}))
    assert is_done(PARENT, Positions(shards={A: at(20)}))


def test_a_window_is_refused_where_the_lake_table_is_behind_it():
    window = a_window(PARENT)
    assert list(why_not(window, Positions(ORIGINS, {A: at(20)}), Positions())) == []
    assert list(why_not(window, Positions(ORIGINS, {A: at(30)}), Positions())) == []
    for copied in (at(10), at(15), at(20)):
        assert list(why_not(window, Positions(ORIGINS, {A: at(30)}), Positions(shards={A: copied}))) == []
    (behind,) = why_not(window, Positions(ORIGINS, {A: at(19)}), Positions())
    assert "rolled back" in behind
    (unknown,) = why_not(window, Positions(shards={A: at(20)}), Positions())
    assert unknown == (
        f"the lake table knows nothing of the stream {STREAM}: it was rolled back or replaced since the window was made"
    )


def test_a_window_of_a_former_life_that_a_repair_has_left_out_is_copied_by_what_the_ledgers_tell():
    later = StreamId(STREAM.arn, STREAM.epoch + 1)
    source = Positions({later: Origin(Start(), NOON)})
    assert list(why_not(a_window(PARENT), source, Positions(), story(a_range(A, None, at(20))))) == []


def test_where_the_lake_table_has_no_position_of_a_shard_its_ledgers_tell_whether_it_has_the_rows():
    window = a_window(PARENT)
    nowhere, empty = Positions(ORIGINS), Positions()
    assert lacks_position(window, nowhere)
    assert not lacks_position(window, Positions(ORIGINS, {A: at(30)}))
    # Kinesis has forgotten the ended shard, and its position is gone.
    landed = (a_range(A, None, at(15)), a_range(A, at(15), at(20)))
    assert list(why_not(window, nowhere, empty, story(*landed))) == []
    # A part of the ledgers is lost, maybe the one that would tell.
    assert list(why_not(window, nowhere, empty, story(lost=(7,)))) == []
    # The table was rolled back to before the shard's first records, or to before the last ones of the window.
    for left in (None, story(), story(landed[0]), story(a_range(B, None, at(20)))):
        (why,) = why_not(window, nowhere, empty, left)
        assert (
            why
            == f"{A}: the lake table is at no position, before the window's end 20: it was rolled back since"
        )


def test_a_window_that_ends_within_the_lake_tables_last_record_is_within_reach():
    window = a_window(WindowRange(A, None, at(20, 2**63 - 1)))
    assert list(why_not(window, Positions(ORIGINS, {A: at(20, 3)}), Positions())) == []


def test_a_table_with_other_positions_isnt_the_windows():
    source = Positions(ORIGINS, {A: at(30)})
    for stranger in (at(9), at(21)):
        (why,) = why_not(a_window(PARENT), source, Positions(shards={A: stranger}))
        assert "outside of the window" in why
