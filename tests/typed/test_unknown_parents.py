"""Shards of which nothing tells the parents: no row of theirs comes before one that may be a parent's (I3), on values."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.sort_texts import sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.files.portion import plan_portion
from headrace.pipeline.typed.plan import plan_wave, plan_wishes
from headrace.pipeline.typed.values import Piece, SourceFile, Wanted, WaveLimits, WavePlan, Wishes

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ORIGIN = Origin(TRIM, NOON)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
LATER = StreamId(STREAM.arn, STREAM.epoch + 1)
A, B, C, D = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(4))
LEFT_OUT = Positions({LATER: ORIGIN})
"""The lake table's positions after a repair has left out the former life."""
PLENTY = WaveLimits(10**9, 10**12)
Rows = dict[ShardKey, tuple[int, int]]


def at(sequence: int | None, *children: ShardKey, ended: bool = False) -> Position:
    names = tuple(child.shard_id for child in children)
    return Position(sequence, ended=ended or bool(children), children=names, arrival=NOON)


def known(**shards: Position) -> Positions:
    keys = {"a": A, "b": B, "c": C, "d": D}
    return Positions({STREAM: ORIGIN}, {keys[name]: position for name, position in shards.items()})


def wave(wishes: Wishes, rows: Rows, limits: WaveLimits = PLENTY) -> WavePlan:
    pieces = [
        Piece(key, "f", 0, sort_key_of(at(first)), sort_key_of(at(last)), last - first + 1, 1, newest=NOON)
        for key, (first, last) in rows.items()
    ]
    return plan_wave(wishes, pieces, ceiling=None, limits=limits)


def taken(plan: WavePlan) -> dict[str, tuple[int | None, bool]]:
    return {planned.key.shard_id[-1]: (planned.upto.sequence, planned.upto.ended) for planned in plan.ranges}


def wishes_of(source: Positions, target: Positions, *, may_stop: bool = False) -> Wishes:
    return replace(plan_wishes(source, target, takes=lambda _: True), may_stop=may_stop)


@pytest.mark.parametrize("source", [LEFT_OUT, known(b=at(30))], ids=["left out", "a day late"])
def test_a_processor_takes_a_shard_whose_parents_nothing_tells_in_a_later_wave_than_those_that_may_be_them(
    source: Positions,
):
    """A may be the parent of B: it came and went, and the lake table has forgotten it."""
    target, rows = Positions({STREAM: ORIGIN}), {A: (1, 10), B: (20, 30)}
    # A typed table takes both in one commit, all or nothing.
    assert taken(wave(wishes_of(source, target), rows)).keys() == {"0", "1"}
    first = wave(wishes_of(source, target, may_stop=True), rows)
    assert set(taken(first)) == {"0"}
    assert not first.is_last
    then = wave(wishes_of(source, known(a=at(10, ended=True)), may_stop=True), {B: (20, 30)})
    assert taken(then).keys() == {"1"}


def test_a_processor_that_has_stopped_at_a_shard_lets_those_wait_that_may_be_its_children():
    target, rows = known(a=at(5)), {B: (20, 30), C: (2, 4)}
    wishes = wishes_of(LEFT_OUT, target, may_stop=True)
    stopped = replace(wishes, wanted=(), stopped=wishes.wanted, closed=frozenset({A}))
    assert taken(wave(stopped, rows)).keys() == {"2"}


def test_a_child_waits_where_only_its_parents_end_is_left_to_be_processed():
    wishes = wishes_of(LEFT_OUT, known(a=at(10)), may_stop=True)
    assert taken(wave(wishes, {B: (20, 30)})) == {"0": (10, True)}
    ended = wishes_of(LEFT_OUT, known(a=at(10, ended=True)), may_stop=True)
    assert taken(wave(ended, {B: (20, 30)})) == {"1": (30, False)}


def test_a_new_shard_without_a_record_ends_after_all_rows_that_may_be_its_parents():
    source = known(b=at(None, ended=True))
    wishes = wishes_of(source, Positions({STREAM: ORIGIN}), may_stop=True)
    assert taken(wave(wishes, {A: (1, 10)})) == {"0": (10, False)}
    assert taken(wave(wishes, {})) == {"1": (None, True)}


@pytest.mark.parametrize("one", [at(5), at(5, C, D)], ids=["open", "ended, and its END names all children"])
def test_no_shard_waits_for_one_whose_children_are_known(one: Position):
    source, rows = known(a=one, b=at(30)), {A: (1, 5), B: (20, 30)}
    wishes = wishes_of(source, Positions({STREAM: ORIGIN}), may_stop=True)
    assert taken(wave(wishes, rows)).keys() == {"0", "1"}
    stopped = tuple(lack for lack in wishes.wanted if lack.key == A)
    others = tuple(lack for lack in wishes.wanted if lack.key != A)
    left = replace(wishes, wanted=others, stopped=stopped, closed=wishes.closed | {A})
    assert taken(wave(left, {B: (20, 30)})).keys() == {"1"}


def test_an_open_shard_of_a_life_that_is_over_may_have_children_that_a_repair_has_left_out():
    source = Positions({STREAM: ORIGIN, LATER: ORIGIN}, {A: at(5)})
    wishes = wishes_of(source, Positions(), may_stop=True)
    assert taken(wave(wishes, {A: (1, 5), B: (20, 30)})) == {"0": (5, False)}
    assert taken(wave(wishes_of(source, known(a=at(5)), may_stop=True), {B: (20, 30)})) == {"1": (30, False)}


def test_a_shard_of_another_life_is_nobodys_parent():
    other = ShardKey(LATER, B.shard_id)
    wishes = wishes_of(Positions({STREAM: ORIGIN, LATER: ORIGIN}), Positions(), may_stop=True)
    stopped = replace(wishes, stopped=(Wanted(A, None, None),), closed=frozenset({A}))
    assert [planned.key for planned in wave(stopped, {other: (20, 30)}).ranges] == [other]


def test_all_files_are_looked_at_for_rows_of_a_life_that_a_repair_has_left_out():
    file = SourceFile("f", 10, sort_key_of(at(1)), sort_key_of(at(9)), (D.shard_id, D.shard_id))
    for target, files in ((known(a=at(20, ended=True)), (file,)), (Positions({LATER: ORIGIN}), ())):
        wishes = wishes_of(LEFT_OUT, target)
        assert wishes.wanted == ()
        assert plan_portion([file], wishes, rows=1000).files == files


@given(
    bounds=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), min_size=1, max_size=7, unique=True),
    most=st.integers(1, 40),
    is_left_out=st.booleans(),
    one_begun=st.booleans(),
)
def test_waves_of_a_processor_take_all_rows_each_after_those_that_may_be_its_parents(
    *, bounds: list[tuple[int, int]], most: int, is_left_out: bool, one_begun: bool
):
    rows = {ShardKey(STREAM, f"shard-{n}"): (first, first + more) for n, (first, more) in enumerate(bounds)}
    source = LEFT_OUT if is_left_out else known(d=at(1000))
    target = known(a=at(0)) if one_begun else Positions({STREAM: ORIGIN})
    left, done, number = dict(rows), dict[ShardKey, int](), 0
    begun: dict[ShardKey, int] = {}
    while True:
        number += 1
        wishes = wishes_of(source, target, may_stop=True)
        plan = wave(wishes, left, WaveLimits(most, 10**9))
        if not plan.ranges:
            break
        for planned in plan.ranges:
            if planned.key in left:
                begun.setdefault(planned.key, number)
                done[planned.key] = number
                del left[planned.key]
        target = target.with_shards({planned.key: planned.upto for planned in plan.ranges})
    assert left == {}
    assert all(
        begun[key] > done[other]
        for key, (first, _) in rows.items()
        for other, (_, last) in rows.items()
        if last < first
    )
