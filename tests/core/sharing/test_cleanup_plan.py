"""Which rows and ENDs may be deleted, tested by one condition at a time: each condition alone keeps a row or an END."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.landing.landing import Proposal, decide_landing
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.cleanup_plan import (
    plan_delete_ended,
    plan_delete_garbage,
    plan_drop,
    worth_asking,
)

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
P, A, B = (ShardKey(STREAM, name) for name in "pab")
ENDED = Position(5, ended=True, children=("a", "b"))
CHILDREN_BEGUN = {P: ENDED, A: Position(6), B: Position(7)}
ROW = Lease(
    "p", 3, SHARD_END, owner="w1", children=frozenset("ab"), parents=frozenset("o"), stream_epoch=STREAM.epoch
)
LISTED_CHILDREN = (Shard("a", ("p",)), Shard("b", ("p",)))

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(shards: dict[ShardKey, Position]) -> Positions:
    return Positions({STREAM: Origin(TRIM, datetime(2026, 1, 1, tzinfo=UTC))}, shards)


def deleted(
    shards: dict[ShardKey, Position],
    *rows: Lease,
    listed: tuple[Shard, ...] = LISTED_CHILDREN,
    gone: str = "",
) -> list[str]:
    positions = at(shards)
    family = a_family(STREAM, listed, leases=rows, positions=positions)
    plans = plan_delete_ended(family, rows, positions) + plan_delete_garbage(
        family, rows, positions, gone=set(gone)
    )
    return [change.key for change in plans]


def test_the_row_of_an_ended_shard_whose_children_are_being_read_is_deleted() -> None:
    assert deleted(CHILDREN_BEGUN, ROW) == ["p"]


@pytest.mark.parametrize(
    "shards",
    [
        {
            A: Position(6),
            B: Position(7),
            P: Position(5),
        },  # the table was rolled back to before the shard's end
        {},  # the table was rolled back to before the stream's first commit
        {P: ENDED, A: Position(6)},
        {P: ENDED, A: Position(6), B: Position(seen=datetime(2026, 1, 1, tzinfo=UTC))},
    ],
)
def test_the_row_stays_while_the_table_has_no_end_of_the_shard_or_a_child_is_at_its_start(
    shards: dict[ShardKey, Position],
) -> None:
    assert deleted(shards, ROW) == []
    assert deleted(shards, replace(ROW, children=frozenset()), listed=(), gone="p") == []


def test_the_row_stays_while_a_listing_shows_the_shard_or_a_parents_row_exists() -> None:
    assert deleted(CHILDREN_BEGUN, ROW, listed=(*LISTED_CHILDREN, Shard("p", closed=True))) == []
    assert deleted(CHILDREN_BEGUN, ROW, Lease("o", stream_epoch=STREAM.epoch)) == []
    assert deleted(CHILDREN_BEGUN, ROW, Lease("o", stream_epoch=STREAM.epoch - 1)) == ["p"]


def test_a_left_over_row_is_deleted_only_if_kinesis_has_forgotten_the_shard_and_no_run_claims_the_row() -> (
    None
):
    back = replace(ROW, checkpoint=TRIM_HORIZON)
    assert deleted(CHILDREN_BEGUN, back) == []
    assert deleted(CHILDREN_BEGUN, back, gone="p") == ["p"]
    assert deleted(CHILDREN_BEGUN, replace(back, run_claim="r/1"), gone="p") == []


def test_the_row_of_an_unread_shard_is_never_garbage() -> None:
    assert deleted({}, replace(ROW, checkpoint=TRIM_HORIZON, children=frozenset()), gone="p") == []


@pytest.mark.parametrize(
    ("shards", "listed", "dropped"),
    [
        (CHILDREN_BEGUN, LISTED_CHILDREN, ["p"]),
        (CHILDREN_BEGUN, (*LISTED_CHILDREN, Shard("p", closed=True)), []),
        ({P: ENDED, A: Position(6)}, LISTED_CHILDREN, []),
        (
            {**CHILDREN_BEGUN, A: Position(start=TRIM)},
            LISTED_CHILDREN,
            [],
        ),  # the child's position doesn't say when its records arrived
        (
            {**CHILDREN_BEGUN, A: Position(start=TRIM, seen=datetime(2026, 1, 1, tzinfo=UTC))},
            LISTED_CHILDREN,
            ["p"],
        ),
        ({**CHILDREN_BEGUN, A: Position(ended=True)}, LISTED_CHILDREN, ["p"]),
        ({P: replace(ENDED, children=())}, (), []),
        ({P: replace(ENDED, children=()), A: Position(6)}, LISTED_CHILDREN, []),
        ({**CHILDREN_BEGUN, P: replace(ENDED, children=())}, LISTED_CHILDREN, ["p"]),
        ({**CHILDREN_BEGUN, P: Position(5)}, LISTED_CHILDREN, []),
    ],
)
def test_an_end_is_removed_once_the_positions_of_all_children_show_the_shards_end(
    shards: dict[ShardKey, Position], listed: tuple[Shard, ...], dropped: list[str]
) -> None:
    assert drop_of(shards, listed, gone="p") == dropped
    family = a_family(STREAM, listed, positions=at(shards))
    asked = worth_asking(family, (), at(shards), listed=listed, kept_since=NOON)
    assert [key.shard_id for key in asked] == dropped
    assert drop_of(shards, listed, gone="") == []
    unfinished = Lease("p", stream_epoch=P.stream.epoch)
    assert drop_of(shards, listed, unfinished, gone="p") == [], "the shard's row doesn't say SHARD_END yet"


def test_kinesis_is_asked_about_an_ended_shard_once_the_retention_is_over_since_its_last_record() -> None:
    """An earlier ResourceNotFound is a mistake, and without its END the shard would look like one that was never read (D15)."""
    for ended in (replace(ENDED, arrival=NOON), replace(ENDED, seen=NOON)):
        shards = {**CHILDREN_BEGUN, P: ended}
        family = a_family(STREAM, LISTED_CHILDREN, positions=at(shards))
        for kept_since, asked in ((NOON, ()), (NOON + timedelta(seconds=1), (P,))):
            found = worth_asking(family, (), at(shards), listed=LISTED_CHILDREN, kept_since=kept_since)
            assert found == asked


def drop_of(
    shards: dict[ShardKey, Position], listed: tuple[Shard, ...], *rows: Lease, gone: str
) -> list[str]:
    """The shards whose ENDs clean-up removes. Each commit of the removal lands on the positions on which it was planned."""
    family = a_family(STREAM, listed, leases=rows, positions=at(shards))
    drop = plan_drop(family, rows, at(shards), gone=set(gone), listed=listed)
    page = decide_landing(at(shards), Proposal(drop=drop.ends, begun=drop.begun)).page
    assert page.dropped == drop.ends
    return [key.shard_id for key in drop.ends]


def test_an_end_that_a_parents_end_names_is_removed_after_the_parents_end() -> None:
    """Without its END the shard would look like an unread child of its parent."""
    over = Position(6, ended=True, children=("g", "h"))
    begun = {ShardKey(STREAM, name): Position(8) for name in "gh"}
    listed = (Shard("b", ("p",)), Shard("g", ("a",)), Shard("h", ("a",)))
    assert drop_of({P: ENDED, A: over, **begun}, listed, gone="pa") == []
    assert drop_of({P: ENDED, A: over, B: Position(7), **begun}, listed, gone="pa") == ["p"]
    assert drop_of({A: over, **begun}, listed, gone="a") == ["a"]


def test_an_end_stays_while_a_child_that_it_doesnt_name_is_unread() -> None:
    """A listing was late when the shard was found gone, so that its END names one child of two. Without the END the other child
    would report that records are lost since the origin."""
    shards = {P: replace(ENDED, children=("a",)), A: Position(6)}
    row = Lease("b", parents=frozenset("p"), stream_epoch=STREAM.epoch)
    assert drop_of(shards, LISTED_CHILDREN, gone="p") == []
    assert drop_of(shards, LISTED_CHILDREN[:1], row, gone="p") == []
    assert drop_of({**shards, B: Position(7)}, LISTED_CHILDREN, gone="p") == ["p"]


LOW, HIGH = HashRange(0, MAX_HASH_KEY // 2), HashRange(MAX_HASH_KEY // 2 + 1, MAX_HASH_KEY)


@pytest.mark.parametrize(
    ("listed", "dropped"),
    [
        ((Shard("a", (), LOW), Shard("b", (), HIGH)), ["p"]),
        ((Shard("a", (), LOW), Shard("b", (), HIGH), Shard("x", (), LOW, closed=True)), ["p"]),
        ((Shard("a", (), LOW), Shard("b", (), HIGH), Shard("x", (), LOW)), []),
        ((Shard("a", (), LOW),), []),
        ((Shard("a", (), LOW), Shard("b", (), HIGH, closed=True)), []),
        ((), []),
    ],
)
@pytest.mark.parametrize("named", [(), ("a",)])
def test_an_end_of_which_a_child_may_be_unknown_is_removed_once_all_open_shards_have_positions(
    named: tuple[str, ...], listed: tuple[Shard, ...], dropped: list[str]
) -> None:
    """The shard was gone from Kinesis, and so were its children or one of them, before a run came to know them."""
    shards = {P: replace(ENDED, children=named), A: Position(6), B: Position(7)}
    assert drop_of(shards, listed, gone="p") == dropped
    family = a_family(STREAM, listed, positions=at(shards))
    begun = plan_drop(family, (), at(shards), gone={"p"}, listed=listed).begun
    assert begun == ((A, B) if dropped else ())


def test_an_end_of_a_merged_shard_names_its_only_child() -> None:
    shards = {P: replace(ENDED, children=("a",)), A: Position(6)}
    assert drop_of(shards, (Shard("a", ("o", "p")), Shard("x")), gone="p") == ["p"]
