"""Positions are worked out again from what is left in the table: the plan alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from headrace.pipeline.core.landing.repair_plan import (
    KnownState,
    LastRow,
    Picked,
    Repair,
    TableEvidence,
    plan_repair,
)
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage, Range
from headrace.pipeline.core.order.parents import Family, a_family
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ORIGINS = {STREAM: Origin(TRIM, NOON)}
A, B, C = (ShardKey(STREAM, name) for name in "abc")
FAMILIES = {STREAM: a_family(STREAM, [Shard("a"), Shard("b", ("a",)), Shard("c", ("b",))])}


def known_state(snapshot: int, **shards: Position) -> KnownState:
    at = {ShardKey(STREAM, name): position for name, position in shards.items()}
    return KnownState(snapshot, Positions(ORIGINS, at), LedgerPage())


def broken_chain(*states: KnownState, **rows: int) -> TableEvidence:
    last = {ShardKey(STREAM, name): LastRow(n, NOON) for name, n in rows.items()}
    return TableEvidence(9, None, (), last, states)


def planned(
    evidence: TableEvidence,
    families: Mapping[StreamId, Family] = FAMILIES,
    *,
    gone: frozenset[ShardKey] = frozenset(),
) -> Repair:
    found = plan_repair(evidence, families, origins={}, gone=gone, why="w", run="r")
    assert isinstance(found, Repair), found
    return found


def positions_after(repair: Repair) -> dict[str, Position]:
    return {key.shard_id: at for key, at in repair.landing.positions.shards.items()}


def test_the_newest_snapshots_position_of_the_last_row_is_kept_with_its_times() -> None:
    over = Position(5, ended=True, children=("b",), seen=NOON)
    assert positions_after(planned(broken_chain(known_state(3, a=over), a=5))) == {"a": over}


def test_the_last_rows_decide_whether_they_lie_after_or_before_the_newest_snapshots_position() -> None:
    repair = planned(broken_chain(known_state(3, a=Position(5), b=Position(9)), a=7, b=6))
    assert positions_after(repair) == {
        "a": Position(7, ended=True, children=("b",), arrival=NOON),
        "b": Position(6, arrival=NOON),
    }
    assert any(
        "b: its position goes back from 9 to 6; the records between are read again" in told
        for told in repair.sentences
    )


def test_the_newest_snapshot_decides_for_a_shard_without_rows() -> None:
    repair = planned(
        broken_chain(known_state(4, a=Position(6)), known_state(3, a=Position(5), b=Position(2)))
    )
    assert positions_after(repair) == {"a": Position(6), "b": Position(2)}
    assert sum("has no row of the shard" in told for told in repair.sentences) == 2


def landing(key: ShardKey, upto: int, *, rows: int = 1, kind: Kind = Kind.LANDED) -> LedgerPage:
    return LedgerPage((Range(kind, key, None, Position(upto), run="r", claim="r/1", rows=rows),))


def test_a_snapshot_whose_files_arent_in_the_table_was_rolled_back_and_is_not_used_for_records() -> None:
    """A child may be known from this snapshot alone. What an older snapshot says of the shard still counts."""
    start = Position(start=Start(NOON))
    rolled_back = replace(known_state(4, a=Position(6), b=Position(9), c=start), page=landing(A, 6))
    assert positions_after(planned(broken_chain(rolled_back, a=5), {})) == {
        "a": Position(5, arrival=NOON),
        "c": start,
    }
    assert positions_after(planned(broken_chain(rolled_back, known_state(3, b=Position(2)), a=5), {}))[
        "b"
    ] == Position(2)
    built_on_it = known_state(5, a=Position(6), b=Position(9, seen=NOON))
    repair = planned(broken_chain(built_on_it, rolled_back), {})
    assert positions_after(repair) == {"c": start}
    assert [told.split(": ")[1] for told in repair.sentences if "gets no position" in told] == [
        "gets no position, because the table has no row of the shard; a snapshot says 6, and the shard is read again from its start",
        "gets no position, because the table has no row of the shard; a snapshot says 9, and the shard is read again from its start",
    ]


def test_of_several_landings_that_were_rolled_back_the_first_one_decides_which_snapshots_arent_used() -> None:
    """Rows of the first one's other shards may be missing as well."""
    first = replace(known_state(4, a=Position(6), b=Position(9)), page=landing(A, 6))
    second = replace(known_state(5, a=Position(8), b=Position(9)), page=landing(A, 8))
    for states in ((second, first), (first, second)):
        assert positions_after(planned(broken_chain(*states, a=5), {})) == {"a": Position(5, arrival=NOON)}


def test_a_snapshot_whose_files_are_in_the_table_or_that_brought_no_rows_is_used() -> None:
    said = known_state(4, a=Position(6), b=Position(9))
    for state, rows in (
        (replace(said, page=landing(A, 6)), {"a": 6}),
        (replace(said, page=landing(A, 6)), {"a": 7}),
        (replace(said, page=landing(A, 6, rows=0, kind=Kind.FOREIGN)), {"a": 5}),
        (replace(known_state(3, a=Position(9)), page=landing(A, 9)), {"a": 7}),
    ):
        repair = planned(broken_chain(said, state, **rows), {})
        assert positions_after(repair)["b"] == Position(9)


def test_every_ancestor_of_a_shard_with_rows_has_ended() -> None:
    ended = positions_after(planned(broken_chain(known_state(3, b=Position(seen=NOON)), a=4, c=8)))
    assert {name: at.token for name, at in ended.items()} == {
        "a": (4, 0, True),
        "b": (None, 0, True),
        "c": (8, 0, False),
    }
    assert (ended["a"].children, ended["b"].children) == (("b",), ("c",))


def test_no_end_is_invented_for_an_ancestor_without_rows_or_positions() -> None:
    """The ancestor may have ended before the start. With an END its other children would be read, which ended
    before the start too."""
    repair = planned(broken_chain(known_state(3), c=8))
    assert positions_after(repair) == {"c": Position(8, arrival=NOON)}
    assert not any(told.startswith((str(A), str(B))) for told in repair.sentences)


def test_each_shard_between_an_end_and_a_descendant_with_rows_gets_an_end() -> None:
    """The END above names the shard. Without an END of its own the shard would be read again later."""
    ended = positions_after(planned(broken_chain(known_state(3), a=4, c=8)))
    assert ended["b"] == Position(ended=True, children=("c",))
    assert ended["a"] == Position(4, ended=True, children=("b",), arrival=NOON)


def test_without_any_usable_snapshot_the_plan_says_that_records_beside_main_are_read_again() -> None:
    evidence = replace(
        broken_chain(known_state(4, a=Position(6), b=Position(9, ended=True)), b=9), is_whole=True
    )
    repair = planned(evidence, {})
    assert positions_after(repair) == {"b": Position(9, ended=True)}
    assert repair.landing.positions.origins == ORIGINS
    assert any(told.startswith(f"{A}: gets no position") and "says 6" in told for told in repair.sentences)


def test_a_shard_that_kinesis_forgot_without_a_proof_of_its_end_is_reported() -> None:
    repair = planned(broken_chain(known_state(3), a=5, b=6, c=8), gone=frozenset({A, C}))
    assert positions_after(repair) == {"b": Position(6, arrival=NOON)}
    told = [each for each in repair.sentences if "gets no position" in each]
    assert len(told) == 1
    assert told[0].startswith("1 shard gets")
    assert told[0].endswith(f": {C} (last row: 8)")


def test_a_forgotten_shard_without_rows_or_positions_needs_no_position() -> None:
    assert positions_after(planned(broken_chain(known_state(3), a=5), {}, gone=frozenset({A}))) == {}
    assert positions_after(
        planned(broken_chain(known_state(3, a=Position(4)), a=5), {}, gone=frozenset({A}))
    ) == {"a": Position(5, arrival=NOON)}


def test_a_repair_is_refused_if_there_are_rows_after_a_position_that_the_chain_shows() -> None:
    reached = Positions(ORIGINS, {A: Position(3)})
    found = plan_repair(
        TableEvidence(9, reached, (), {A: LastRow(5)}, ()), FAMILIES, origins={}, why="w", run="r"
    )
    assert isinstance(found, Stop)
    assert "would land these rows twice" in found.why


def test_cherry_picked_ranges_land_in_order() -> None:
    def a_pick(snapshot: int, after: int, upto: int) -> Picked:
        each = Range(Kind.LANDED, A, Position(after), Position(upto), run="r", claim="r/1")
        return Picked(snapshot, LedgerPage((each,)))

    reached = Positions(ORIGINS, {A: Position(3)})
    in_order = TableEvidence(9, reached, (a_pick(7, 3, 5), a_pick(8, 5, 6)), {A: LastRow(6)}, ())
    assert positions_after(planned(in_order)) == {"a": Position(6)}
    turned = TableEvidence(9, reached, (a_pick(8, 5, 6), a_pick(7, 3, 5)), {A: LastRow(6)}, ())
    assert isinstance(plan_repair(turned, FAMILIES, origins={}, why="w", run="r"), Stop)


def test_an_end_that_was_removed_before_a_cherry_pick_is_not_reported_as_lost() -> None:
    each = Range(Kind.LANDED, B, Position(7), Position(9), run="r", claim="r/1", rows=2)
    picked = (Picked(9, LedgerPage((each,))),)
    older = known_state(3, a=Position(5, ended=True, children=("b",)))
    rows = {A: LastRow(5, NOON), B: LastRow(9, NOON)}
    reached = Positions(ORIGINS, {B: Position(7)})
    repair = planned(TableEvidence(9, reached, picked, rows, (known_state(8, b=Position(7)), older)))
    assert positions_after(repair) == {"b": Position(9)}
    assert not [told for told in repair.sentences if "gets no position" in told]


def test_user_records_that_landed_after_the_newest_snapshots_position_inside_an_aggregate_count() -> None:
    """The position came from a KCL worker. A later commit, whose snapshot is lost, has landed the rest of the record."""
    inside = Position(5, 1, arrival=NOON, inside=True)
    rest = TableEvidence(9, None, (), {A: LastRow(5, NOON, 3)}, (known_state(3, a=inside),))
    assert positions_after(planned(rest)) == {"a": Position(5, 3, arrival=NOON)}
    reached = TableEvidence(9, Positions(ORIGINS, {A: inside}), (), {A: LastRow(5, NOON, 3)}, ())
    found = plan_repair(reached, FAMILIES, origins={}, why="w", run="r")
    assert isinstance(found, Stop)
    assert "up to 5/3, but its position is 5/1" in found.why


def test_below_a_shard_that_is_read_again_from_its_start_no_shard_gets_a_position() -> None:
    """A person has rolled back the rows of shard b. Its child had ended without a record, which a snapshot says that main has left:
    with that END shard b would count as ended, and its records would be passed over."""
    over = Position(9, ended=True, children=("c",), arrival=NOON)
    landed = Range(Kind.LANDED, B, None, over, run="r", claim="c", rows=4)
    left = replace(
        known_state(4, a=Position(5), b=over, c=Position(ended=True, seen=NOON)),
        page=LedgerPage((landed,)),
    )
    repair = planned(broken_chain(left, known_state(3, a=Position(5)), a=5))
    assert positions_after(repair) == {"a": Position(5)}
    assert sum("read again from its start" in told for told in repair.sentences) == 2
    with_rows = planned(broken_chain(left, a=5, c=12))
    assert positions_after(with_rows)["b"].ended, "a child's rows prove that its parent was read"
