"""The state of many shards as a delta against a full state: nothing is lost on the way through the files, and each error shows."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.landing import Landing, Proposal, decide_landing
from headrace.pipeline.core.landing.ledger_codec import read_delta, read_full, write_delta, write_full
from headrace.pipeline.core.landing.state_delta import FullState, TiedState, as_full, plan_state, restored
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey
from tests.core.landings import KEYS, ORIGIN, STREAM, A, B, base_of, landed
from tests.core.strategies import KEYS as ANY_KEYS
from tests.core.strategies import ORIGINS, POSITIONS, STREAMS, table_positions

AT = {key: Position(number) for number, key in enumerate(KEYS, start=1)}


@st.composite
def landings(draw: st.DrawFn, before: Positions) -> Landing:
    """A landing on these positions: shards that move, appear or are dropped, and new origins."""
    known = st.sampled_from(sorted(before.shards)) if before.shards else ANY_KEYS
    moved = draw(st.dictionaries(ANY_KEYS | known, POSITIONS, max_size=4))
    dropped = (draw(st.frozensets(known, max_size=2)) - moved.keys()) & before.shards.keys()
    decided = draw(st.dictionaries(STREAMS, ORIGINS, max_size=1))
    decided = {stream: origin for stream, origin in decided.items() if stream not in before.origins}
    ranges = tuple(landed(key, before.of(key), at) for key, at in moved.items())
    page = LedgerPage(ranges, tuple(decided.items()), tuple(sorted(dropped)))
    return Landing(page, (), (), before.with_origins(decided).with_shards(moved, dropped))


@st.composite
def histories(draw: st.DrawFn) -> list[Landing]:
    before, found = draw(table_positions()), list[Landing]()
    found.append(Landing(LedgerPage(), (), (), before))
    for _ in range(draw(st.integers(1, 4))):
        found.append(draw(landings(found[-1].positions)))
    return found


def through_files(state: TiedState) -> TiedState | None:
    """The state as another process reads it."""
    full = FullState.of(read_full(write_full(state.full.positions)))
    return restored(full, read_delta(write_delta(state.delta)), state.digest)


def after(base: TiedState, *moved: ShardKey, drop: tuple[ShardKey, ...] = ()) -> Landing:
    """These shards land one record more, and these leave the positions."""
    to = {key: Position((base.positions.shards[key].sequence or 0) + 100) for key in moved}
    page = LedgerPage(tuple(landed(key, base.positions.of(key), at) for key, at in to.items()), (), drop)
    return Landing(page, (), (), base.positions.with_shards(to, drop))


@given(histories())
def test_each_snapshot_alone_leads_to_its_positions_and_their_digest(history: list[Landing]):
    state = as_full(history[0].positions)
    for landing in history[1:]:
        state = plan_state(state, landing)
        read = through_files(state)
        assert read == state
        assert read is not None
        assert read.positions == landing.positions
        assert read.digest == as_full(landing.positions).digest


@given(histories())
def test_the_deltas_since_a_full_state_have_no_more_shards_together_than_it_has(history: list[Landing]):
    state, written = as_full(history[0].positions), 0
    for landing in history[1:]:
        before, state = state, plan_state(state, landing)
        written = 0 if state.full is not before.full else written + _size(state)
        assert written <= len(state.full.positions.shards)
        assert state.delta.spent == written


@given(st.data(), histories())
def test_a_delta_that_lacks_a_change_is_refused(data: st.DataObject, history: list[Landing]):
    state = as_full(history[0].positions)
    for landing in history[1:]:
        state = plan_state(state, landing)
    assume(_size(state))
    moved, dropped = dict(state.delta.moved), set(state.delta.dropped)
    lost = data.draw(st.sampled_from(sorted([*moved, *dropped])))
    moved.pop(lost, None)
    dropped.discard(lost)
    assert (
        restored(state.full, replace(state.delta, moved=moved, dropped=frozenset(dropped)), state.digest)
        is None
    )


@given(table_positions(), ANY_KEYS, POSITIONS)
def test_a_full_state_with_another_position_has_another_digest(book: Positions, key: ShardKey, at: Position):
    assume(book.of(key) != at)
    assert as_full(book).digest != as_full(book.with_shards({key: at})).digest


def test_a_dropped_shard_stays_out_of_all_later_snapshots_until_it_lands_again():
    state = plan_state(as_full(base_of(dict(AT))), after(as_full(base_of(dict(AT))), drop=(A,)))
    assert state.delta.dropped == {A}
    for _ in range(3):
        state = plan_state(state, after(state, B))
        read = through_files(state)
        assert read is not None
        assert read.positions.shards.keys() == AT.keys() - {A}
    back = Landing(LedgerPage((landed(A, None, AT[B]),)), (), (), state.positions.with_shards({A: AT[B]}))
    state = plan_state(state, back)
    assert not state.delta.dropped
    assert state.positions.of(A) == AT[B]


def test_a_shard_that_came_and_went_since_the_full_state_is_in_no_delta():
    full = as_full(base_of({key: AT[key] for key in KEYS if key != A}))
    come = Landing(LedgerPage((landed(A, None, AT[A]),)), (), (), full.positions.with_shards({A: AT[A]}))
    state = plan_state(full, come)
    state = plan_state(state, after(state, drop=(A,)))
    assert (state.delta.moved, state.delta.dropped) == ({}, frozenset())
    assert state.digest == full.digest


def test_a_shard_that_moves_often_is_once_in_the_delta():
    state = as_full(base_of(dict(AT)))
    for _ in range(4):
        state = plan_state(state, after(state, A))
    assert state.delta.moved.keys() == {A}
    assert state.delta.spent == 4


@pytest.mark.parametrize("spent", [0, len(AT)], ids=["delta", "full state"])
def test_positions_that_no_ledger_explains_are_never_written(spent: int):
    base = as_full(base_of(dict(AT)))
    base = replace(base, delta=replace(base.delta, spent=spent))
    moved = after(base, B)
    for positions in (
        moved.positions.with_shards({}, [A]),
        moved.positions.with_shards({A: AT[B]}),
        replace(moved.positions, origins={}),
    ):
        with pytest.raises(ValueError, match="ledger applied"):
            plan_state(base, replace(moved, positions=positions))


def test_a_real_decision_lands_on_a_delta():
    base = as_full(base_of(dict(AT)))
    landing = decide_landing(base.positions, Proposal((landed(A, AT[A], Position(50)),)))
    state = plan_state(base, landing)
    assert state.full is base.full
    assert state.positions.of(A) == Position(50)
    assert state.positions.origins == {STREAM: ORIGIN}


def _size(state: TiedState) -> int:
    return len(state.delta.moved) + len(state.delta.dropped)
