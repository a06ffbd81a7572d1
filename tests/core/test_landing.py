"""The landing decision, on which exactly-once depends."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.batch import StagedFile
from pipeline.core.landing import Proposal, RangeRefused, decide_landing
from pipeline.core.lineage import Kind, LedgerPage, ParentIs, ParentReason, Range
from pipeline.core.position import Origin, Position, Positions, Start, is_forward
from pipeline.core.stream import ShardKey, StreamId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_700_000_000)
LATER_LIFE = replace(STREAM, epoch=1_800_000_000)
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
    """The positions of a table; shards with None have none."""
    return Positions({STREAM: ORIGIN} if origin else {}, {k: p for k, p in at.items() if p is not None})


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
    assert (refused.range.key, refused.found) == (A, Position(5))


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
    landing = decide_landing(base, Proposal((replay,), (a_file("again", A),)))
    assert landing.page.ranges == (replay,)
    assert len(landing.files) == 1
    assert landing.positions == base


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


# --- the text of a refusal, and the limits of each rule -----------------------------------------------------------


def refusal(base: Positions, each: Range) -> str:
    landing = decide_landing(base, Proposal((each,)))
    (refused,) = landing.refused
    assert refused == RangeRefused(each, base.of(each.key), refused.why)
    assert landing.page == LedgerPage()
    assert landing.positions == base
    return refused.why


def test_a_refused_range_says_where_the_table_stands_and_where_the_range_began():
    at = base_of({A: Position(5)})
    assert (
        refusal(at, landed(A, Position(4), Position(6)))
        == "the table's position is 5, but this range began at position 4"
    )
    assert (
        refusal(at, landed(A, None, Position(6)))
        == "the table's position is 5, but this range began at position none"
    )
    assert refusal(at, landed(B, Position(4), Position(6))) == (
        "the table's position is none, but this range began at position 4"
    )
    assert refusal(at, landed(A, Position(5), Position(4))) == (
        "it would move the position back, from 5 to 4"
    )
    assert refusal(base_of({}, origin=False), landed(A, None, Position(1))) == (
        f"no origin is decided for {STREAM}"
    )


def test_the_refusal_of_a_child_names_its_first_parent_in_the_way():
    def child(*parents: ParentReason) -> Range:
        return landed(C, None, Position(1), parents=parents)

    ended = ParentReason(A.shard_id, ParentIs.ENDED)
    other = ParentReason(B.shard_id, ParentIs.ENDED)
    assert refusal(base_of({A: Position(5)}), child(ended)) == (
        f"its parent {A.shard_id} hasn't ended in the table (the parent's position is 5)"
    )
    assert refusal(base_of({A: Position(5, ended=True)}), child(ended, other)) == (
        f"its parent {B.shard_id} had ended when the run looked, but has no position in the table now"
    )
    for by in (None, D.shard_id):
        assert refusal(base_of({}), child(ParentReason(A.shard_id, ParentIs.PASSED, by))) == (
            f"its parent {A.shard_id} counted as ended because of its descendant {by}, which has no position in the table now"
        )


def test_parents_are_looked_up_in_the_childs_own_stream():
    first = landed(C, None, Position(1), parents=(ParentReason(A.shard_id, ParentIs.ENDED),))
    elsewhere = base_of({ShardKey(LATER_LIFE, A.shard_id): Position(5, ended=True)})
    assert "had ended when the run looked" in refusal(elsewhere, first)
    passed = landed(C, None, Position(1), parents=(ParentReason(A.shard_id, ParentIs.PASSED, D.shard_id),))
    assert "counted as ended because" in refusal(
        base_of({ShardKey(LATER_LIFE, D.shard_id): Position(5)}), passed
    )


def test_parents_matter_only_for_a_shards_first_range():
    base = base_of({A: Position(5), C: Position(1)})
    on = landed(C, Position(1), Position(2), parents=(ParentReason(A.shard_id, ParentIs.ENDED),))
    assert decide_landing(base, Proposal((on,))).page.ranges == (on,)


def test_a_range_may_land_with_the_commit_that_decides_its_streams_origin():
    first = landed(A, None, Position(1))
    landing = decide_landing(Positions(), Proposal((first,), origins=((STREAM, ORIGIN),)))
    assert landing.page == LedgerPage((first,), ((STREAM, ORIGIN),))
    assert landing.positions == base_of({A: Position(1)})
    assert not landing.refused


def test_origins_of_several_streams_are_written_in_the_streams_order():
    origins = ((LATER_LIFE, ORIGIN), (STREAM, ORIGIN))
    landing = decide_landing(Positions(), Proposal(origins=origins))
    assert landing.page.origins == ((STREAM, ORIGIN), (LATER_LIFE, ORIGIN))
    assert not landing.is_empty


def test_a_replay_of_a_stream_without_an_origin_or_of_a_child_before_its_parents_is_refused():
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    assert refusal(base_of({}, origin=False), replay) == f"no origin is decided for {STREAM}"
    early = replace(
        landed(C, None, Position(3), parents=(ParentReason(A.shard_id, ParentIs.ENDED),)), kind=Kind.REPLAY
    )
    assert "had ended when the run looked" in refusal(base_of({}), early)


def test_a_shard_refused_for_a_shared_file_names_the_shards_it_shares_with():
    base = base_of({A: Position(5), B: Position(5), C: Position(5)})
    ranges = (
        landed(A, Position(4), Position(6)),
        landed(B, Position(4), Position(6)),
        landed(C, Position(5), Position(6)),
    )
    landing = decide_landing(base, Proposal(ranges, (a_file("abc", A, B, C),)))
    assert landing.refused[2] == RangeRefused(
        ranges[2], Position(5), f"it shares a file with {A.shard_id}, which is refused"
    )
    assert landing.files == ()
    assert landing.is_empty
    apart = decide_landing(base, Proposal(ranges, (a_file("a", A), a_file("bc", B, C))))
    assert apart.refused[2].why == f"it shares a file with {B.shard_id}, which is refused"


def test_all_shards_of_a_file_name_the_same_refused_shard_and_come_in_their_order():
    """Also where sets of shards have another order, as in another process."""
    base = base_of(dict.fromkeys(KEYS, Position(5)))
    ranges = tuple(landed(key, Position(5 if key != D else 4), Position(6)) for key in KEYS)
    landing = decide_landing(base, Proposal(ranges, (a_file("all", *KEYS),)))
    others = [key for key in KEYS if key != D]
    assert [each.range.key for each in landing.refused] == [D, *others]
    assert {each.why for each in landing.refused[1:]} == {
        f"it shares a file with {D.shard_id}, which is refused"
    }


def test_a_file_with_a_shard_that_has_no_range_is_an_error_that_names_its_shards():
    both = f"files hold rows of shards that the proposal has no range for: {[B, C]}"
    with pytest.raises(ValueError, match=f"^{re.escape(both)}$"):
        decide_landing(
            base_of({}), Proposal((landed(A, None, Position(1)),), (a_file("f", C, A), a_file("g", B)))
        )
    with pytest.raises(ValueError, match=r"^a proposal holds at most one range of a shard$"):
        decide_landing(base_of({}), Proposal((landed(A, None, Position(1)),) * 2))


def test_an_end_is_removed_once_all_children_have_positions_and_no_parents_end_names_the_shard():
    end = Position(5, ended=True, children=(C.shard_id, D.shard_id))

    def is_dropped(**more: Position | None) -> bool:
        at = {A: end, C: Position(1), D: Position(1)} | {KEYS[int(key[1:])]: p for key, p in more.items()}
        landing = decide_landing(base_of(at), Proposal(drop=(A,)))
        assert landing.is_empty is not (landing.page.dropped == (A,))
        assert landing.positions.of(A) == (None if landing.page.dropped else at[A])
        return bool(landing.page.dropped)

    assert is_dropped()
    assert not is_dropped(k0=None), "there is no END to remove"
    assert not is_dropped(k0=replace(end, ended=False)), "the shard is still being read"
    assert not is_dropped(k0=replace(end, children=())), "the shard's children aren't known yet"
    assert not is_dropped(k2=None)
    assert not is_dropped(k3=None)
    assert not is_dropped(k3=Position(start=Start())), "the child inherits the witness of this END"
    assert is_dropped(k3=Position(start=Start(), seen=NOON))
    assert is_dropped(k3=Position(ended=True))
    assert not is_dropped(k1=Position(5, ended=True, children=(A.shard_id,)))
    assert is_dropped(k1=Position(5, children=(A.shard_id,)))


def test_an_end_whose_shard_moves_in_the_same_commit_is_not_removed_but_others_are():
    end = Position(5, ended=True, children=(C.shard_id,))
    base = base_of({A: end, B: end, C: Position(1)})
    back = replace(landed(A, end, Position(4)), kind=Kind.REPOSITION)
    landing = decide_landing(base, Proposal((back,), drop=(A, B)))
    assert landing.page.dropped == (B,)
    assert landing.positions.of(A) == Position(4)
    assert landing.positions.of(B) is None


def carried(before: Position, upto: Position, kind: Kind = Kind.LANDED) -> Position | None:
    """The position of shard A after a range from `before` to `upto`."""
    move = replace(landed(A, before, upto), kind=kind)
    return decide_landing(base_of({A: before}), Proposal((move,))).positions.of(A)


def test_a_moved_position_keeps_the_old_values_that_the_range_doesnt_bring():
    early, late = NOON.replace(hour=1), NOON.replace(hour=2)
    before = Position(5, children=("c",), arrival=early, seen=early)
    assert carried(before, Position(6)) == replace(before, sequence=6)
    own = Position(6, children=("d",), arrival=late, seen=late)
    assert carried(before, own) == own
    assert carried(Position(5), own) == own


def test_a_positions_own_start_is_kept_until_the_first_record_has_landed():
    begun = Position(start=Start(NOON))
    assert carried(begun, Position(seen=NOON)) == Position(start=Start(NOON), seen=NOON)
    assert carried(begun, Position(start=Start())) == Position(start=Start())
    assert carried(begun, Position(3)) == Position(3)


def test_a_persons_move_and_a_shards_first_range_keep_no_old_values():
    before = Position(5, children=("c",), arrival=NOON, seen=NOON)
    for kind in (Kind.REPOSITION, Kind.REPAIR):
        assert carried(before, Position(5), kind) == Position(5)
    first = Position(start=Start(NOON))
    assert decide_landing(base_of({}), Proposal((landed(A, None, first),))).positions.of(A) == first
