"""The landing decision: the positions and origins that the table has after a commit."""

from dataclasses import replace

from headrace.pipeline.core.landing.landing import Landing, Proposal, decide_landing
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage
from headrace.pipeline.core.shards.position import Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey
from tests.core.landings import (
    KEYS,
    LATER_LIFE,
    NOON,
    ORIGIN,
    STREAM,
    A,
    B,
    C,
    D,
    a_file,
    base_of,
    landed,
)


def test_once_a_record_has_landed_the_position_holds_no_decision_about_earlier_ones():
    marked = Position(5, gap_accepted=True, inside=True, skipped_until=NOON)
    landing = decide_landing(base_of({A: marked}), Proposal((landed(A, marked, Position(6)),)))
    assert landing.positions.of(A) == Position(6)


def test_a_commit_that_carries_its_base_on_has_the_positions_and_the_statement_and_lands_nothing():
    base, through = base_of({A: Position(5)}), {STREAM: NOON}
    files = (a_file("new.parquet", A),)
    assert Landing.carrying(base, through, files) == Landing(LedgerPage(), files, (), base, through)
    assert Landing.carrying(base, through).is_empty


def test_origins_of_several_streams_are_written_in_the_streams_order():
    origins = ((LATER_LIFE, ORIGIN), (STREAM, ORIGIN))
    landing = decide_landing(Positions(), Proposal(origins=origins))
    assert landing.page.origins == ((STREAM, ORIGIN), (LATER_LIFE, ORIGIN))
    assert not landing.is_empty


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


def test_an_end_without_children_is_removed_only_while_the_shards_that_allow_it_have_positions():
    at: dict[ShardKey, Position | None] = {
        A: Position(ended=True),
        B: Position(5, ended=True, children=(C.shard_id,)),
        C: Position(1),
    }

    def dropped(base: dict[ShardKey, Position | None], *begun: ShardKey) -> tuple[ShardKey, ...]:
        return decide_landing(base_of(base), Proposal(drop=(A, B), begun=begun)).page.dropped

    assert dropped(at) == (B,), "no child of A is known"
    assert dropped(at, C) == (A, B)
    assert dropped(at, C, D) == (), "the table was rolled back to before the first record of D"
    assert dropped({**at, D: Position(start=Start())}, D) == ()


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
