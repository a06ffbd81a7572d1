"""The landing decision: all of exactly-once hangs on it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.batch import StagedFile
from pipeline.core.landing import Proposal, decide_landing
from pipeline.core.lineage import Kind, ParentIs, ParentReason, Range
from pipeline.core.position import Origin, Position, Positions, Start, is_forward
from pipeline.core.stream import ShardKey, StreamId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_700_000_000)
LATER = replace(STREAM, epoch=1_800_000_000)
ORIGIN = Origin(Start(), NOON)
KEYS = [ShardKey(STREAM, f"shardId-{i:012d}") for i in range(7)]
A, B, C, D = KEYS[:4]

STATES = st.none() | st.builds(
    Position,
    st.none() | st.integers(0, 4),
    st.integers(0, 1),
    ended=st.booleans(),
    seen=st.none() | st.just(NOON),
)


def landed(key: ShardKey, after: Position | None, upto: Position, **more: object) -> Range:
    return Range(Kind.LANDED, key, after, upto, "run", "run/1", **more)  # type: ignore[arg-type]


def a_file(path: str, *keys: ShardKey) -> StagedFile:
    return StagedFile(path, frozenset(keys), 1, 1, b"", "2026-01-01", NOON)


def base_of(at: dict[ShardKey, Position | None], *, origin: bool = True) -> Positions:
    return Positions({STREAM: ORIGIN} if origin else {}, {k: p for k, p in at.items() if p is not None})


@st.composite
def waves(draw: st.DrawFn) -> tuple[Positions, Proposal]:
    """A base and a run that read on from what it believes the base to be, sometimes wrongly."""
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
def test_every_range_lands_or_is_refused_and_none_is_both(wave: tuple[Positions, Proposal]):
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
        assert file.shards <= refused, "a file stayed behind, and a shard of it landed without it"


@given(waves())
def test_what_is_refused_was_refused_for_itself_or_shares_files_with_what_was(
    wave: tuple[Positions, Proposal],
):
    """The closure is the least one: a zombie of one shard holds up no shard that it shares nothing with."""
    base, proposal = wave
    landing = decide_landing(base, proposal)
    alone = {r.key for r in proposal.ranges if decide_landing(base, Proposal((r,))).refused}
    reached = set(alone)
    for _ in proposal.files:
        reached |= {key for file in proposal.files if file.shards & reached for key in file.shards}
    assert {r.range.key for r in landing.refused} == reached


@given(waves())
def test_only_a_range_that_began_where_the_table_stands_moves_it(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    for each in landing.page.ranges:
        at = base.of(each.key)
        if each.moves:
            assert (at.token if at else None) == (each.after.token if each.after else None)
            assert landing.positions.shards[each.key].token == each.upto.token
            assert each.may_go_back or is_forward(at, each.upto)


@given(waves())
def test_every_position_is_carried_but_those_that_moved_or_were_dropped(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    moved = {r.key for r in landing.page.ranges if r.moves}
    assert landing.positions.origins == base.origins
    assert set(landing.positions.shards) == (set(base.shards) | moved) - set(landing.page.dropped)
    for key in set(base.shards) - moved - set(landing.page.dropped):
        assert landing.positions.shards[key] == base.shards[key]


@given(waves())
def test_only_ended_positions_are_dropped(wave: tuple[Positions, Proposal]):
    base, proposal = wave
    landing = decide_landing(base, proposal)
    assert set(landing.page.dropped) <= set(proposal.drop)
    assert all(base.has_ended(key) for key in landing.page.dropped)


@given(waves())
def test_a_landing_that_is_asked_for_again_moves_nothing_twice(wave: tuple[Positions, Proposal]):
    """A commit whose answer was lost, tried again: what moved the table is refused, for the table has moved."""
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
def test_of_two_runs_that_read_the_same_ground_one_lands(
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


def test_a_zombie_of_one_shard_does_not_hold_up_another():
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
    assert (refused.range.key, refused.found) == (A, Position(5))


def test_a_refusal_reaches_along_a_chain_of_shared_files():
    base = base_of({key: Position(5) for key in (A, B, C, D)})
    ranges = [
        landed(A, Position(4), Position(6)),
        *(landed(key, Position(5), Position(6)) for key in (B, C, D)),
    ]
    files = (a_file("bc", B, C), a_file("ab", A, B), a_file("d", D))
    landing = decide_landing(base, Proposal(tuple(ranges), files))
    assert {r.range.key for r in landing.refused} == {A, B, C}
    assert [f.path for f in landing.files] == ["d"]


def test_a_step_back_is_refused_but_to_a_person():
    base = base_of({A: Position(5)})
    back = landed(A, Position(5), Position(4))
    assert "back" in decide_landing(base, Proposal((back,))).refused[0].why
    for kind in (Kind.REPOSITION, Kind.REPAIR):
        landing = decide_landing(base, Proposal((replace(back, kind=kind),)))
        assert landing.positions.of(A) == Position(4)


def test_a_replay_lands_rows_and_moves_nothing():
    base = base_of({A: Position(5)})
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    landing = decide_landing(base, Proposal((replay,), (a_file("again", A),)))
    assert landing.page.ranges == (replay,)
    assert len(landing.files) == 1
    assert landing.positions == base


def test_nothing_lands_of_a_stream_without_an_origin():
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


def test_an_origin_of_one_life_says_nothing_of_another():
    key = ShardKey(LATER, A.shard_id)
    landing = decide_landing(base_of({}), Proposal((landed(key, None, Position(1)),)))
    assert [r.range.key for r in landing.refused] == [key]


PARENT = A.shard_id


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
def test_a_first_range_waits_for_its_parents_by_the_tables_word(
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


def test_a_parent_passed_by_a_descendant_is_out_of_the_way_while_that_has_a_position():
    first = landed(C, None, Position(1), parents=(ParentReason(PARENT, ParentIs.PASSED, D.shard_id),))
    assert decide_landing(base_of({D: Position(1)}), Proposal((first,))).page.ranges
    assert decide_landing(base_of({}), Proposal((first,))).refused


def test_two_ranges_of_one_shard_are_a_mistake_of_the_caller():
    twice = landed(A, None, Position(1))
    with pytest.raises(ValueError, match="one range"):
        decide_landing(base_of({}), Proposal((twice, twice)))


def test_a_file_of_a_shard_without_a_range_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match=B.shard_id):
        decide_landing(base_of({}), Proposal((landed(A, None, Position(1)),), (a_file("f", A, B),)))


def test_a_move_without_witness_keeps_the_tables():
    before = Position(5, arrival=NOON, seen=NOON, children=("shardId-9",))
    landing = decide_landing(base_of({A: before}), Proposal((landed(A, before, Position(5, ended=True)),)))
    assert landing.positions.of(A) == replace(before, ended=True)


def test_what_was_seen_never_goes_back():
    before = Position(5, seen=NOON)
    upto = Position(6, seen=datetime(2025, 1, 1, tzinfo=UTC))
    landing = decide_landing(base_of({A: before}), Proposal((landed(A, before, upto),)))
    at = landing.positions.of(A)
    assert at is not None
    assert at.seen == NOON
