"""Positions: what is compared and swapped, and what is carried."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.core.position import Origin, Position, Positions, is_forward
from pipeline.core.stream import ShardKey, StreamId
from tests.core.strategies import KEYS, MOMENTS, ORIGINS, POSITIONS, SHARD_IDS, STREAMS, books


@given(POSITIONS)
def test_staying_is_going_forward(at: Position):
    assert is_forward(at, at)
    assert is_forward(None, at)


@given(POSITIONS, POSITIONS)
def test_going_there_and_back_is_standing_still(a: Position, b: Position):
    if is_forward(a, b) and is_forward(b, a):
        assert a.token == b.token or {a.sequence, b.sequence} <= {None}


@given(POSITIONS, POSITIONS, POSITIONS)
def test_two_steps_forward_are_a_step_forward(a: Position, b: Position, c: Position):
    assert is_forward(a, c) or not (is_forward(a, b) and is_forward(b, c))


@given(POSITIONS)
def test_an_end_is_never_taken_back_by_going_forward(at: Position):
    ended, opened = replace(at, ended=True), replace(at, ended=False)
    assert is_forward(opened, ended)
    assert not is_forward(ended, opened)


@given(POSITIONS, st.integers(0, 10**60), st.integers(1, 10**60))
def test_a_lower_number_is_a_step_back(at: Position, low: int, more: int):
    assert not is_forward(replace(at, sequence=low + more), replace(at, sequence=low))
    assert is_forward(replace(at, sequence=low), replace(at, sequence=low + more, sub=0))


@given(POSITIONS, POSITIONS)
def test_a_checkpoint_goes_forward_where_its_position_does(a: Position, b: Position):
    assume(a.checkpoint is not None and b.checkpoint is not None)
    assert a.checkpoint is not None
    assert b.checkpoint is not None
    if is_forward(a, b):
        assert a.checkpoint <= b.checkpoint


@given(POSITIONS, st.lists(SHARD_IDS, max_size=2).map(tuple), st.none() | MOMENTS)
def test_children_and_witnesses_are_not_compared(at: Position, children: tuple[str, ...], seen):
    assert replace(at, children=children, seen=seen, arrival=seen).token == at.token


@given(POSITIONS)
def test_a_witness_is_the_latest_of_what_was_seen(at: Position):
    seen = [t for t in (at.arrival, at.seen) if t is not None]
    assert at.witness == (max(seen) if seen else None)


@given(books(), st.dictionaries(KEYS, POSITIONS, max_size=3), st.frozensets(KEYS, max_size=3))
def test_shards_that_did_not_move_keep_their_positions(
    book: Positions, moved: dict[ShardKey, Position], dropped: frozenset[ShardKey]
):
    after = book.with_shards(moved, dropped)
    assert after.origins == book.origins
    assert dict(after.shards) == {k: v for k, v in book.shards.items() if k not in dropped} | moved


@given(books(), st.dictionaries(STREAMS, ORIGINS, max_size=3))
def test_an_origin_stands_for_ever(book: Positions, asked: dict[StreamId, Origin]):
    after = book.with_origins(asked)
    assert after.shards == book.shards
    assert {s: after.origins[s] for s in book.origins} == dict(book.origins)
    assert set(after.origins) == set(book.origins) | set(asked)
