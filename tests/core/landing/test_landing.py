"""The landing decision, on which exactly-once depends."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.landing import Proposal, decide_landing
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start, is_forward
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.core.landings import (
    KEYS,
    LATER_LIFE,
    NOON,
    ORIGIN,
    PARENT,
    STREAM,
    A,
    B,
    C,
    D,
    a_file,
    base_of,
    landed,
)

STATES = st.none() | st.builds(
    Position,
    st.none() | st.integers(0, 4),
    st.integers(0, 1),
    ended=st.booleans(),
    seen=st.none() | st.just(NOON),
)


@st.composite
def waves(draw: st.DrawFn) -> tuple[Positions, Proposal]:
    """A table's positions, and a run that read on from what it took them to be, sometimes wrongly."""
    base = base_of({key: draw(STATES) for key in KEYS}, origin=draw(st.integers(0, 9)) > 0)
    ranges = []
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
        after = base.of(key) if draw(st.integers(0, 3)) else draw(STATES)
        upto = draw(STATES.filter(bool)) or Position()
        kind = draw(
            st.sampled_from(
                [Kind.LANDED, Kind.LANDED, Kind.LANDED, Kind.SKIPPED, Kind.REPOSITION, Kind.REPLAY]
            )
        )
        ranges.append(replace(landed(key, after, upto), kind=kind))
    shards = [r.key for r in ranges]
    files = [
        a_file(f"f{i}", *draw(st.sets(st.sampled_from(shards), min_size=1, max_size=3)))
        for i in range(draw(st.integers(0, 5)) if shards else 0)
    ]
    drop = draw(st.sets(st.sampled_from(KEYS), max_size=2))
    return base, Proposal(tuple(ranges), tuple(files), drop=tuple(sorted(drop)))


@given(waves())
def test_every_range_either_lands_or_is_refused(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    landed_keys, refused = [r.key for r in landing.page.ranges], [r.range.key for r in landing.refused]
    assert sorted(landed_keys + refused) == sorted(r.key for r in proposal.ranges)


@given(waves())
def test_no_file_of_a_refused_shard_lands_and_no_shard_lands_in_part(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    refused = {r.range.key for r in landing.refused}
    for file in landing.files:
        assert not file.shards & refused
    for file in set(proposal.files) - set(landing.files):
        assert file.shards <= refused, "a file was left out, but a shard in it landed"


@given(waves())
def test_a_proposal_that_lands_as_a_whole_or_not_at_all(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, replace(proposal, whole=True))
    if decide_landing(base, proposal).refused:
        assert landing.is_empty
        assert (landing.files, landing.positions) == ((), base)
        assert len(landing.refused) == len(proposal.ranges)
    else:
        assert landing == decide_landing(base, proposal)


@given(waves())
def test_a_range_is_refused_only_for_its_own_fault_or_for_a_file_shared_with_a_refused_shard(
    wave: tuple[Positions, Proposal],
):
    """A refused shard takes only those shards along that share a file with it."""
    base, proposal = wave
    landing = decide_landing(base, proposal)
    alone = {r.key for r in proposal.ranges if decide_landing(base, Proposal((r,))).refused}
    reached = set(alone)
    for _ in proposal.files:
        reached |= {key for file in proposal.files if file.shards & reached for key in file.shards}
    assert {r.range.key for r in landing.refused} == reached


@given(waves())
def test_only_a_range_that_began_at_the_tables_position_moves_it(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    for each in landing.page.ranges:
        at = base.of(each.key)
        if each.moves:
            assert (at.token if at else None) == (each.after.token if each.after else None)
            assert landing.positions.shards[each.key].token == each.upto.token
            assert each.may_go_back or is_forward(at, each.upto)


@given(waves())
def test_every_position_is_carried_forward_unless_it_moved_or_was_removed(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    moved = {r.key for r in landing.page.ranges if r.moves}
    assert landing.positions.origins == base.origins
    assert set(landing.positions.shards) == (set(base.shards) | moved) - set(landing.page.dropped)
    for key in set(base.shards) - moved - set(landing.page.dropped):
        assert landing.positions.shards[key] == base.shards[key]


@given(waves())
def test_only_ended_positions_are_removed(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    assert set(landing.page.dropped) <= set(proposal.drop)
    assert all(base.has_ended(key) for key in landing.page.dropped)


@given(waves())
def test_a_repeated_commit_moves_no_position_twice(wave: tuple[Positions, Proposal]):
    """A commit is tried again because its answer was lost. Ranges that moved a position are refused then, because
    the position has moved."""
    base, proposal = wave
    first = decide_landing(base, proposal)
    again = decide_landing(first.positions, replace(proposal, drop=()))
    really = {
        r.key for r in first.page.ranges if r.moves and r.upto.token != (r.after.token if r.after else None)
    }
    assert really <= {r.range.key for r in again.refused}
    assert {k: p.token for k, p in again.positions.shards.items() if k in really} == {
        k: first.positions.shards[k].token for k in really
    }


@given(waves(), st.sampled_from(KEYS), STATES.filter(lambda at: at is None or not at.ended))
def test_of_two_runs_that_read_the_same_records_one_lands(
    wave: tuple[Positions, Proposal], key: ShardKey, at: Position | None
):
    base = base_of({**wave[0].shards, key: at})
    upto = Position((at.sequence or 0) + 9 if at else 9)
    one, other = landed(key, at, upto), replace(landed(key, at, upto), claim="run/2")
    first = decide_landing(base, Proposal((one,)))
    second = decide_landing(first.positions, Proposal((other,)))
    assert [r.key for r in first.page.ranges] == [key]
    assert [r.range for r in second.refused] == [other]
    assert second.is_empty


def test_a_range_of_a_replaced_run_doesnt_keep_other_shards_from_landing():
    base = base_of({A: Position(5), B: Position(5)})
    landing = decide_landing(
        base,
        Proposal(
            (landed(A, Position(4), Position(6)), landed(B, Position(5), Position(6))),
            (a_file("a", A), a_file("b", B)),
        ),
    )
    assert [f.path for f in landing.files] == ["b"]
    (refused,) = landing.refused
    assert (refused.range.key, refused.position) == (A, Position(5))


def test_a_refusal_spreads_over_a_chain_of_shared_files():
    base = base_of({key: Position(5) for key in (A, B, C, D)})
    ranges = [
        landed(A, Position(4), Position(6)),
        *(landed(key, Position(5), Position(6)) for key in (B, C, D)),
    ]
    files = (a_file("bc", B, C), a_file("ab", A, B), a_file("d", D))
    landing = decide_landing(base, Proposal(tuple(ranges), files))
    assert {r.range.key for r in landing.refused} == {A, B, C}
    assert [f.path for f in landing.files] == ["d"]


def test_a_range_that_goes_back_is_refused_unless_a_person_decided_it():
    base = base_of({A: Position(5)})
    back = landed(A, Position(5), Position(4))
    assert "back" in decide_landing(base, Proposal((back,))).refused[0].why
    for kind in (Kind.REPOSITION, Kind.REPAIR):
        landing = decide_landing(base, Proposal((replace(back, kind=kind),)))
        assert landing.positions.of(A) == Position(4)


def test_a_replay_lands_rows_and_moves_no_position():
    base = base_of({A: Position(5)})
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    raised = landed(chain_of(A), None, Position(1))
    landing = decide_landing(base, Proposal((replay, raised), (a_file("again", A),)))
    assert landing.page.ranges == (replay, raised)
    assert len(landing.files) == 1
    assert landing.positions == base.with_shards({chain_of(A): Position(1)})


def test_a_replay_lands_only_if_its_shards_generation_is_raised_by_the_same_commit():
    """I39: of two replays that were staged at the same time, the second one is refused, also where their range has no row."""
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    raised = landed(chain_of(A), None, Position(1))
    first = decide_landing(base_of({A: Position(5)}), Proposal((replay, raised)))
    assert not first.refused
    second = decide_landing(first.positions, Proposal((replay, raised)))
    assert {each.range for each in second.refused} == {replay, raised}
    for alone in (Proposal((replay,)), Proposal((replay, landed(chain_of(B), None, Position(1))))):
        (refused,) = decide_landing(base_of({A: Position(5)}), alone).refused
        assert refused.range == replay
        assert "the generation of its shard isn't raised" in refused.why


@pytest.mark.parametrize("at", [None, Position(2), Position(2, 7)])
def test_a_replay_of_what_the_table_has_not_reached_is_refused(at: Position | None):
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    raised = landed(chain_of(A), None, Position(1))
    landing = decide_landing(base_of({A: at}), Proposal((replay, raised), whole=True))
    assert "before the end 3 of the range" in landing.refused[0].why
    assert landing.is_empty


def test_no_range_lands_for_a_stream_without_an_origin():
    landing = decide_landing(base_of({}, origin=False), Proposal((landed(A, None, Position(1)),)))
    assert "no origin" in landing.refused[0].why


def test_an_origin_is_decided_once():
    proposal = Proposal(origins=((STREAM, ORIGIN),))
    first = decide_landing(Positions(), proposal)
    assert first.page.origins == ((STREAM, ORIGIN),)
    other = Origin(Start(NOON), NOON)
    second = decide_landing(first.positions, Proposal(origins=((STREAM, other),)))
    assert second.is_empty
    assert second.positions.origins == {STREAM: ORIGIN}


def test_the_origin_of_a_life_that_is_over_isnt_decided_after_that_of_a_later_life():
    base = Positions({LATER_LIFE: ORIGIN})
    landing = decide_landing(base, Proposal(origins=((STREAM, ORIGIN),)))
    assert landing.is_empty
    assert landing.positions.origins == {LATER_LIFE: ORIGIN}


def test_the_origin_of_a_later_life_is_decided_after_that_of_an_earlier_life_and_of_another_stream():
    other = StreamId(STREAM.arn + "-2", LATER_LIFE.epoch + 1)
    for earlier in (STREAM, other):
        landing = decide_landing(Positions({earlier: ORIGIN}), Proposal(origins=((LATER_LIFE, ORIGIN),)))
        assert landing.positions.origins == {earlier: ORIGIN, LATER_LIFE: ORIGIN}


def test_the_origin_of_one_life_doesnt_count_for_another_life():
    key = ShardKey(LATER_LIFE, A.shard_id)
    landing = decide_landing(base_of({}), Proposal((landed(key, None, Position(1)),)))
    assert [r.range.key for r in landing.refused] == [key]


@pytest.mark.parametrize(
    ("parent", "why", "lands"),
    [
        (Position(5, ended=True), ParentIs.ENDED, True),
        (Position(5, ended=True), ParentIs.GONE, True),
        (Position(5), ParentIs.ENDED, False),
        (Position(5), ParentIs.GONE, False),
        (Position(5), ParentIs.BEFORE_START, False),
        (None, ParentIs.ENDED, False),
        (None, ParentIs.GONE, True),
        (None, ParentIs.BEFORE_START, True),
        (None, ParentIs.PASSED, False),
    ],
)
def test_the_tables_positions_decide_whether_a_first_range_may_land_after_its_parents(
    parent: Position | None, why: ParentIs, *, lands: bool
):
    first = landed(C, None, Position(1), parents=(ParentReason(PARENT, why),))
    landing = decide_landing(base_of({A: parent}), Proposal((first,)))
    assert bool(landing.page.ranges) is lands


def test_each_of_two_parents_must_be_out_of_the_way():
    reasons = (ParentReason(A.shard_id, ParentIs.ENDED), ParentReason(B.shard_id, ParentIs.ENDED))
    first = landed(C, None, Position(1), parents=reasons)
    for a, b in ((True, True), (True, False), (False, True)):
        base = base_of({A: Position(5, ended=a), B: Position(5, ended=b)})
        assert bool(decide_landing(base, Proposal((first,))).page.ranges) is (a and b)


def test_a_parent_counts_as_passed_only_while_the_named_descendant_has_a_position():
    first = landed(C, None, Position(1), parents=(ParentReason(PARENT, ParentIs.PASSED, D.shard_id),))
    assert decide_landing(base_of({D: Position(1)}), Proposal((first,))).page.ranges
    assert decide_landing(base_of({}), Proposal((first,))).refused


def test_a_range_without_a_witness_keeps_the_tables_witness():
    before = Position(5, arrival=NOON, seen=NOON, children=("shardId-9",))
    landing = decide_landing(base_of({A: before}), Proposal((landed(A, before, Position(5, ended=True)),)))
    assert landing.positions.of(A) == replace(before, ended=True)


def test_the_seen_time_never_goes_back():
    before = Position(5, seen=NOON)
    upto = Position(6, seen=datetime(2025, 1, 1, tzinfo=UTC))
    landing = decide_landing(base_of({A: before}), Proposal((landed(A, before, upto),)))
    at = landing.positions.of(A)
    assert at is not None
    assert at.seen == NOON


def test_an_end_goes_only_where_shards_are_known_that_show_that_nothing_after_it_is_left_to_read():
    base = base_of({A: Position(4, ended=True), B: Position(2)})
    assert decide_landing(base, Proposal(drop=(A,))).page.dropped == ()
    assert decide_landing(base, Proposal(drop=(A,), begun=(B,))).page.dropped == (A,)
