"""Which rows a wave of a typed table takes."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.ledger import ParentIs
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.sort_texts import past, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.files.portion import plan_portion
from headrace.pipeline.typed.former_lives import by_lives
from headrace.pipeline.typed.plan import plan_wave, plan_wishes
from headrace.pipeline.typed.values import (
    Piece,
    SourceFile,
    Wanted,
    WaveLimits,
    Wishes,
)
from tests.typed.plans import NOON, ORIGINS, STREAM, A, B, C, at, positions

PLENTY = WaveLimits(10**9, 10**12)


def wishes(source: Positions, target: Positions) -> Wishes:
    return plan_wishes(source, target, takes=lambda _: True)


def wanted(source: Positions, target: Positions) -> list[ShardKey]:
    return [each.key for each in wishes(source, target).wanted]


def piece(key: ShardKey, first: int, last: int, *, rows: int = 1, path: str = "f") -> Piece:
    return Piece(key, path, 0, sort_key_of(at(first)), sort_key_of(at(last)), rows, rows, newest=NOON)


def test_a_shard_is_wanted_where_the_lake_table_is_ahead():
    source = positions(a=at(10), b=at(5), c=Position(start=TRIM))
    assert wanted(source, positions(b=at(5))) == [A]
    assert wishes(source, Positions()).origins == ((STREAM, ORIGINS[STREAM]),)


def test_a_stream_that_the_target_doesnt_take_isnt_looked_at():
    found = plan_wishes(positions(a=at(10)), Positions(), takes=lambda _: False)
    # A mistyped `stream` would otherwise look like a target that has caught up.
    assert found.notes == ("the lake table has no stream that the target takes; it has orders",)
    assert (found.wanted, found.streams, found.origins) == ((), (), ())


def test_an_end_before_the_position_is_taken_so_that_the_children_come():
    """A person has given up the records up to 10, and a repair has set the lake table back to its last row."""
    source = positions(a=at(5, children=(B.shard_id,)), b=at(12))
    found = wishes(source, positions(a=at(10)))
    (lack,) = found.wanted
    assert (lack.key, lack.after) == (A, at(10))
    assert lack.upto is not None
    assert lack.upto.token == at(10, children=(B.shard_id,)).token
    assert (found.notes, found.waiting) == ((), frozenset({B}))
    assert wanted(source, positions(a=lack.upto)) == [B]


def test_a_shard_that_the_lake_table_has_set_back_is_left_alone_and_told():
    found = wishes(positions(a=at(5)), positions(a=at(10)))
    assert (found.wanted, found.closed) == ((), frozenset({A}))
    assert "rolled back or set back" in found.notes[0]


def test_a_child_waits_for_its_parents_end_in_the_typed_table():
    split = at(10, children=(B.shard_id, "other"))
    source = positions(a=split, b=at(20))
    first = wishes(source, positions())
    assert ([each.key for each in first.wanted], first.has_waiting) == ([A], True)
    (then,) = wishes(source, positions(a=split)).wanted
    assert (then.key, then.floor) == (B, sort_key_of(at(10)))
    assert [(each.shard_id, each.why) for each in then.parents] == [(A.shard_id, ParentIs.ENDED)]


def test_a_child_that_hasnt_begun_isnt_taken_for_one_that_is_over():
    ended = at(10, children=(B.shard_id,))
    assert wanted(positions(a=ended), positions(a=ended)) == []
    assert wanted(positions(c=at(30)), positions(a=ended, c=at(30))) == [B]


def test_a_shard_without_a_position_ends_only_a_day_after_its_last_row():
    """A lake table that was rolled back lacks positions, too: then all others are older than the shard's last row."""
    for newest, ends in ((NOON, False), (NOON + timedelta(days=2), True)):
        source = positions(c=at(30, arrival=newest))
        target = positions(a=at(10), c=at(30))
        plan = plan_wave(wishes(source, target), [], ceiling=None, limits=PLENTY)
        assert [each.upto.ended for each in plan.ranges] == ([True] if ends else [])


def test_a_shard_without_a_row_ends_a_day_after_its_parents():
    ended = at(10, children=(B.shard_id,))
    for newest, ends in ((NOON, False), (NOON + timedelta(days=2), True)):
        found = wishes(positions(c=at(30, arrival=newest)), positions(a=ended, c=at(30)))
        assert found.are_due is ends
        plan = plan_wave(found, [], ceiling=None, limits=PLENTY)
        assert [(each.key, each.upto.ended) for each in plan.ranges] == ([(B, True)] if ends else [])


def test_a_shard_that_was_taken_for_over_is_parsed_on_once_the_lake_table_has_its_end():
    """The lake table had been rolled back to before the shard's first record, and another day went by before it was read again."""
    over = replace(at(10), ended=True)
    landed = wishes(positions(a=at(20, children=("x", "y"))), positions(a=over))
    assert [(each.key, each.after, each.low) for each in landed.wanted] == [(A, over, past(over))]
    for source in (positions(a=over), positions(a=at(10, children=("x",))), positions(c=at(30))):
        assert A not in wanted(source, positions(a=over))
    on_the_way = wishes(positions(a=at(20)), positions(a=over))
    assert (on_the_way.wanted, len(on_the_way.notes)) == ((), 1)


def test_no_shard_ends_for_want_of_a_position_while_the_lake_table_is_set_back():
    later = NOON + timedelta(days=2)
    source, target = positions(b=at(5), c=at(30, arrival=later)), positions(a=at(10), b=at(7), c=at(30))
    found = wishes(source, target)
    assert [(each.key, each.is_over) for each in found.wanted] == [(A, False)]


def test_the_rows_of_a_former_life_that_a_repair_of_the_lake_table_dropped_are_parsed_to_the_last_one():
    later = StreamId(STREAM.arn, STREAM.epoch + 1)
    source, target = Positions({later: Origin(TRIM, NOON)}), positions(a=at(10))
    found = wishes(source, target)
    assert found.streams == (STREAM, later)
    assert found.are_due
    plan = plan_wave(found, [piece(A, 11, 20)], ceiling=None, limits=PLENTY)
    assert [(each.key, each.rows, each.upto.sequence, each.upto.ended) for each in plan.ranges] == [
        (A, 1, 20, True)
    ]
    assert not wishes(source, positions(a=at(20, children=()))).are_due


def test_a_life_that_the_lake_table_doesnt_know_isnt_over_where_it_knows_no_later_one():
    """The lake table was rolled back to before the life's first commit."""
    for known in (
        {},
        {StreamId(STREAM.arn, STREAM.epoch - 1): Origin(TRIM, NOON)},
        {StreamId("other", 9**10): Origin(TRIM, NOON)},
    ):
        assert not wishes(Positions(known), positions(a=at(10))).are_due


LATER = StreamId(STREAM.arn, STREAM.epoch + 3600)
L = ShardKey(LATER, A.shard_id)


def test_a_later_life_comes_once_a_shard_has_ended_before_the_position():
    """The lake table was set back in the life before, and the records up to 30 didn't land again."""
    source = Positions(
        ORIGINS | {LATER: Origin(TRIM, NOON)},
        {A: at(20, children=(B.shard_id,)), B: at(40), L: at(50)},
    )
    found = by_lives(wishes(source, positions(a=at(30))))
    assert found.are_due
    assert ([lack.key for lack in found.wanted], found.held_back) == ([A, L], frozenset({L}))
    assert plan_wave(found, [piece(L, 1, 50)], ceiling=None, limits=PLENTY).ranges[0].key == A


def test_a_later_life_that_waits_for_what_a_wave_takes_is_due():
    source = Positions(ORIGINS | {LATER: Origin(TRIM, NOON)}, {A: at(20), L: at(50)})
    found = by_lives(wishes(source, positions()))
    assert (found.are_due, found.notes) == (True, ())
    done = by_lives(wishes(source, positions(a=at(20))))
    assert (done.are_due, done.notes) == (True, ())


def test_a_later_life_waits_for_rows_of_an_earlier_one_and_not_for_its_shard_without_a_record():
    source = Positions(ORIGINS | {LATER: Origin(TRIM, NOON)}, {C: Position(start=TRIM), L: at(50)})
    found = by_lives(wishes(source, Positions()))
    assert ([lack.key for lack in found.wanted], found.held_back) == ([L, C], frozenset())
    assert found.are_due
    alone = plan_wave(found, [piece(L, 30, 50)], ceiling=None, limits=PLENTY)
    assert [planned.key for planned in alone.ranges] == [L]
    # An ancestor of the shard without a record, whose position the lake table has dropped.
    beside = plan_wave(found, [piece(A, 1, 20), piece(L, 30, 50)], ceiling=None, limits=PLENTY)
    assert [planned.key for planned in beside.ranges] == [A]


def test_rows_of_a_shard_that_nobody_knows_are_taken():
    source, target = positions(a=at(10)), positions()
    pieces = [piece(A, 1, 10, rows=5), piece(C, 4, 6, rows=2)]
    plan = plan_wave(wishes(source, target), pieces, ceiling=None, limits=PLENTY)
    assert {each.key: (each.rows, each.upto.sequence) for each in plan.ranges} == {A: (5, 10), C: (2, 6)}


def file_of(key: ShardKey, first: int, last: int) -> SourceFile:
    return SourceFile(
        key.shard_id, 10, sort_key_of(at(first)), sort_key_of(at(last)), (key.shard_id, key.shard_id)
    )


@pytest.mark.parametrize("newest", [at(300), Position(), Position(ended=True)])
def test_files_of_shards_that_came_and_went_before_the_typed_table_was_made_are_looked_at(newest: Position):
    found = wishes(positions(c=replace(newest, ended=True)), positions())
    portion = plan_portion([file_of(A, 1, 100)], found, rows=1000)
    assert [each.path for each in portion.files] == [A.shard_id]


def test_rows_of_forgotten_shards_are_taken_where_the_only_shard_that_is_known_has_no_record_yet():
    """A typed table that is made after a day without a record: the lake table has dropped the ENDs of all shards with rows."""
    source = positions(c=Position(start=TRIM))
    new = wishes(source, Positions())
    assert [lack.key for lack in new.wanted] == [C]
    assert not new.are_due, "no run is started for a stream without a record"
    portion = plan_portion([file_of(A, 1, 100)], new, rows=1000)
    assert [file.path for file in portion.files] == [A.shard_id]
    plan = plan_wave(new, [piece(A, 1, 100, rows=5)], ceiling=None, limits=PLENTY)
    assert [(planned.key, planned.rows) for planned in plan.ranges] == [(A, 5)]
    # Once the typed table has begun the stream, the shard is at rest.
    assert wanted(source, positions(c=Position(start=TRIM))) == []
    assert wanted(source, positions()) == []


def test_files_of_forgotten_ancestors_of_a_shard_that_waits_are_looked_at_above_all_wanted_rows():
    """The lake table has dropped B, which ended with a child C that has no record yet. C waits for B's end."""
    found = wishes(positions(a=at(100)), positions())
    rows_of_b = file_of(B, 101, 200)
    assert plan_portion([rows_of_b], found, rows=1000).files == ()
    waiting = replace(found, closed=frozenset({C}))
    assert plan_portion([rows_of_b], waiting, rows=1000).files == (rows_of_b,)


def test_files_of_the_other_parent_of_a_merge_are_looked_at_where_the_lake_table_has_dropped_that_parent():
    """A parent with two children was split, and with a single one it was merged."""
    found = wishes(positions(c=at(300)), positions(a=at(100, children=(C.shard_id,))))
    for rows_of_it in (file_of(B, 101, 200), file_of(B, 1, 50)):
        assert plan_portion([rows_of_it], found, rows=1000).files == (rows_of_it,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (at(50, children=(C.shard_id,)), at(60, children=(C.shard_id,))),
        (at(50, children=(B.shard_id, C.shard_id)), at(200)),
    ],
    ids=["merge", "split"],
)
def test_files_of_other_shards_arent_looked_at_for_a_shard_whose_parents_are_known(
    one: Position, other: Position
):
    found = wishes(positions(a=one, b=other, c=at(300)), positions(a=one, b=other))
    assert [each.key for each in found.wanted] == [C]
    assert plan_portion([file_of(B, 101, 200)], found, rows=1000).files == ()


def test_a_shard_ends_for_want_of_a_position_only_once_all_rows_of_unknown_shards_are_taken():
    """After its end nothing would tell that files of its unknown children have to be looked at."""
    source = positions(c=at(300, arrival=NOON + timedelta(days=2)))
    found = wishes(source, positions(a=at(10), c=at(300)))
    pieces = [piece(A, 11, 20, rows=5), piece(B, 30, 40, rows=5)]
    for most, ended, unknown in ((5, False, False), (10, True, True)):
        plan = plan_wave(found, pieces, ceiling=None, limits=WaveLimits(most, 10**9))
        upto = {each.key: each.upto for each in plan.ranges}
        assert (upto[A].sequence, upto[A].ended, B in upto) == (20, ended, unknown)


def test_a_new_shard_without_rows_gets_a_position_only_once_all_rows_of_unknown_shards_are_taken():
    found = wishes(positions(c=Position(ended=True)), positions())
    pieces = [piece(A, 1, 20, rows=5), piece(A, 30, 40, rows=5)]
    for ceiling, most, taken in ((None, 5, {A}), ("002:50", 10, {A}), (None, 10, {A, C})):
        plan = plan_wave(found, pieces, ceiling=ceiling, limits=WaveLimits(most, 10**9))
        assert {each.key for each in plan.ranges} == taken
        assert plan.is_last is (taken == {A, C})


def test_a_range_without_rows_moves_the_position():
    source = positions(a=at(10))
    (only,) = plan_wave(
        wishes(source, positions(a=at(5))),
        [],
        ceiling=None,
        limits=PLENTY,
    ).ranges
    assert (only.upto, only.rows) == (at(10), 0)


def test_pieces_that_reach_into_each_other_are_never_parted():
    source = positions(a=at(40))
    pieces = [piece(A, 1, 20, path="f"), piece(A, 10, 30, path="g"), piece(A, 30, 31), piece(A, 32, 40)]
    plan = plan_wave(wishes(source, positions()), pieces, ceiling=None, limits=WaveLimits(1, 10))
    assert [(each.upto.sequence, each.rows) for each in plan.ranges] == [(31, 3)]
    assert not plan.is_last


def test_the_rows_of_one_kinesis_record_are_never_parted():
    start = Piece(A, "f", 0, sort_key_of(Position(10, 0)), sort_key_of(Position(10, 5)), 6, 6)
    rest = Piece(A, "g", 0, sort_key_of(Position(10, 6)), sort_key_of(Position(10, 9)), 4, 4)
    found = wishes(positions(a=at(40)), positions())
    plan = plan_wave(found, [start, rest, piece(A, 11, 40)], ceiling=None, limits=WaveLimits(1, 10))
    assert [(each.upto.sequence, each.upto.sub, each.rows) for each in plan.ranges] == [(10, 9, 10)]


def test_a_wave_ends_before_rows_that_have_no_room_and_takes_none_after_them():
    pieces = [piece(A, 1, 10), piece(A, 11, 20, rows=9), piece(A, 21, 30)]
    plan = plan_wave(
        wishes(positions(a=at(30)), positions()), pieces, ceiling=None, limits=WaveLimits(3, 100)
    )
    assert [(each.upto.sequence, each.rows) for each in plan.ranges] == [(10, 1)]
    # Retention goes by the arrival: it must be that of the last row that was taken.
    assert [each.upto.arrival for each in plan.ranges] == [NOON]


def test_nothing_above_the_ceiling_counts_as_done():
    source = positions(a=at(40), b=at(20))
    plan = plan_wave(
        wishes(source, positions()),
        [piece(A, 1, 20), piece(B, 1, 15)],
        ceiling="002:25",
        limits=PLENTY,
    )
    assert {each.key: each.upto.sequence for each in plan.ranges} == {A: 20, B: 20}
    assert not plan.is_last


def files(*bounds: tuple[int, int]) -> list[SourceFile]:
    return [
        SourceFile(f"f{n}", 10, sort_key_of(at(low)), sort_key_of(at(high)), (A.shard_id, A.shard_id))
        for n, (low, high) in enumerate(bounds)
    ]


def test_only_files_that_may_have_wanted_rows_are_looked_at():
    found = wishes(positions(a=at(300)), positions(a=at(100)))
    portion = plan_portion(files((1, 100), (50, 101), (150, 160), (301, 400)), found, rows=1000)
    assert [each.path for each in portion.files] == ["f1", "f2"]
    unknown = SourceFile("u", 5)
    assert unknown in plan_portion([unknown], found, rows=1000).files
    assert portion.ceiling is None


def test_sequence_numbers_are_never_compared_as_texts():
    found = wishes(positions(a=at(1000)), positions(a=at(99)))
    assert [f.path for f in plan_portion(files((98, 99), (100, 1000)), found, rows=99).files] == ["f1"]


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 30)), min_size=1, max_size=12),
    st.integers(1, 60),
)
def test_no_file_that_is_left_out_has_rows_below_the_ceiling(bounds: list[tuple[int, int]], rows: int):
    every = files(*((low, low + more) for low, more in bounds))
    portion = plan_portion(every, wishes(positions(a=at(1000)), positions()), rows=rows)
    left = [each for each in every if each not in portion.files]
    assert all(portion.ceiling is not None and each.low >= portion.ceiling for each in left)


@given(
    st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 200), st.integers(0, 20)), max_size=20),
    st.integers(1, 10),
)
def test_waves_take_each_row_once_in_the_order_of_its_shard(
    drawn: list[tuple[ShardKey, int, int]], most: int
):
    """Each piece here is a row at its first and a row at its last number."""
    source = positions(a=at(500), b=at(500))
    pieces = [piece(key, low, low + more, rows=2, path=f"f{n}") for n, (key, low, more) in enumerate(drawn)]
    target, taken = positions(), 0
    for _ in range(100):
        found = wishes(source, target)
        if not found.wanted:
            break
        left = [
            p
            for p in pieces
            for each in found.wanted
            if each.key == p.key and p.first > each.low and (each.high is None or p.first < each.high)
        ]
        plan = plan_wave(found, left, ceiling=None, limits=WaveLimits(most, 10**9))
        for each in plan.ranges:
            own = [p for p in left if p.key == each.key]
            assert all(p.last <= sort_key_of(each.upto) or p.first > sort_key_of(each.upto) for p in own)
        taken += plan.rows
        target = target.with_shards({each.key: each.upto for each in plan.ranges}).with_origins(ORIGINS)
    assert taken == 2 * len(pieces)
    assert target.shards == source.shards


def test_sort_keys_sort_as_numbers_do():
    keys = [sort_key_of(Position(n, sub)) for n in (9, 10, 99, 100, 2**185) for sub in (0, 9, 10)]
    assert all(one < other for one, other in pairwise(keys))
    assert Wanted(A, None, at(10)).high < sort_key_of(at(11))  # type: ignore[operator]
    assert Wanted(A, None, at(10)).high > sort_key_of(Position(10, 10**18))  # type: ignore[operator]
