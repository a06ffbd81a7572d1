"""Positions: which of their values are compared before a commit, and which are only carried along."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.ledger_codec import read_positions, write_positions
from headrace.pipeline.core.shards.position import Origin, Position, Positions, is_forward, reaches
from headrace.pipeline.core.shards.sort_texts import end_text, order_text
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.core.strategies import KEYS, MOMENTS, ORIGINS, POSITIONS, SHARD_IDS, STREAMS, table_positions


@given(POSITIONS)
def test_a_position_is_no_step_back_from_itself_or_from_none(at: Position):
    assert is_forward(at, at)
    assert is_forward(None, at)


@given(POSITIONS, POSITIONS)
def test_two_positions_that_are_no_step_back_from_each_other_are_equal(a: Position, b: Position):
    if is_forward(a, b) and is_forward(b, a):
        assert a.token == b.token or {a.sequence, b.sequence} <= {None}


@given(POSITIONS, POSITIONS, POSITIONS)
def test_two_steps_forward_are_a_step_forward(a: Position, b: Position, c: Position):
    assert is_forward(a, c) or not (is_forward(a, b) and is_forward(b, c))


@given(POSITIONS)
def test_a_step_forward_never_leads_away_from_an_end(at: Position):
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
def test_children_and_times_are_not_compared(at: Position, children: tuple[str, ...], seen):
    looked = replace(at, children=children, seen=seen, arrival=seen)
    assert (looked.token, looked.footing) == (at.token, at.footing)


@given(POSITIONS, POSITIONS)
def test_each_decision_about_the_records_after_a_position_is_compared(at: Position, other: Position):
    for name in ("sequence", "sub", "ended", "start", "gap_accepted", "inside", "skipped_until"):
        decided = replace(at, **{name: getattr(other, name)})
        assert (decided.footing == at.footing) == (getattr(decided, name) == getattr(at, name))


@given(POSITIONS, ORIGINS)
def test_what_is_compared_is_the_same_once_it_was_stored(at: Position, origin: Origin):
    """A process may know times more exactly than the whole milliseconds that a snapshot keeps."""
    key = ShardKey(
        StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1), "shardId-000000000000"
    )
    stored = read_positions(write_positions(Positions({key.stream: origin}, {key: at})))
    assert stored.shards[key].footing == at.footing
    assert stored.origins[key.stream].footing == origin.footing


@given(POSITIONS)
def test_a_witness_is_the_later_of_arrival_and_seen(at: Position):
    seen = [t for t in (at.arrival, at.seen) if t is not None]
    assert at.witness == (max(seen) if seen else None)


@given(table_positions(), st.dictionaries(KEYS, POSITIONS, max_size=3), st.frozensets(KEYS, max_size=3))
def test_shards_that_did_not_move_keep_their_positions(
    book: Positions, moved: dict[ShardKey, Position], dropped: frozenset[ShardKey]
):
    after = book.with_shards(moved, dropped)
    assert after.origins == book.origins
    assert dict(after.shards) == {k: v for k, v in book.shards.items() if k not in dropped} | moved


@given(table_positions(), st.dictionaries(STREAMS, ORIGINS, max_size=3))
def test_an_origin_is_never_replaced(book: Positions, asked: dict[StreamId, Origin]):
    after = book.with_origins(asked)
    assert after.shards == book.shards
    assert {s: after.origins[s] for s in book.origins} == dict(book.origins)
    assert set(after.origins) == set(book.origins) | set(asked)


@given(STREAMS, ORIGINS, st.integers(-2, 2))
def test_a_life_has_a_later_one_where_an_origin_of_a_greater_epoch_is_known(
    stream: StreamId, origin: Origin, more: int
):
    other = replace(stream, epoch=stream.epoch + more)
    assert Positions({other: origin}).has_later_life(stream) is (more > 0)
    assert not Positions({replace(other, arn=f"{other.arn}-2"): origin}).has_later_life(stream)


def test_an_ended_position_reaches_the_end_of_each_range_of_its_shard_also_without_a_record():
    ended = Position(ended=True)
    assert reaches(ended, Position(975, 3))
    assert not reaches(Position(974), Position(975))
    assert end_text(ended) > order_text(Position(975, 3))
    assert end_text(Position(975, ended=True)) == order_text(Position(975, ended=True))
