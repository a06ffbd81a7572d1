"""The plan of a shard sync, and when the next sync may be left out."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.core.leases.change import Change, create
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import a_family, parents_first
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.sharing.sync_plan import (
    a_lease,
    plan_shard_sync,
    plan_turnover,
    rows_of_earlier_lives,
    sync_token,
)
from tests.core.stream_life import STREAM, VIRTUAL_ZERO


def test_the_plan_for_a_chain_of_ten_thousand_reshards_needs_neither_recursion_nor_quadratic_time() -> None:
    names = [f"shardId-{n:012d}" for n in range(10_000)]
    shards = [
        Shard(name, (names[n - 1],) if n else (), closed=n < len(names) - 1) for n, name in enumerate(names)
    ]
    at = Positions({STREAM: Origin(TRIM, VIRTUAL_ZERO)}, {ShardKey(STREAM, names[5_000]): Position(1)})
    family = a_family(STREAM, shards, positions=at)
    plan = plan_shard_sync(family, shards, (), positions=at, multi=False, sentinel=TRIM_HORIZON)
    assert [change.key for change in plan] == [names[5_000]]
    assert len(family.passed(at)) == 5_000
    assert parents_first(reversed(names), family.parents) == tuple(names)


def test_one_sync_replaces_all_rows_of_a_recreated_stream() -> None:
    old = Lease("shardId-000000000000", checkpoint=Checkpoint("7"), stream_epoch=STREAM.epoch - 5)
    shards = [Shard("shardId-000000000000")]
    plan = plan_shard_sync(
        a_family(STREAM, shards),
        shards,
        [old],
        positions=Positions({STREAM: Origin(TRIM, VIRTUAL_ZERO)}),
        multi=False,
        sentinel=TRIM_HORIZON,
    )
    made = Lease("shardId-000000000000", stream_epoch=STREAM.epoch)
    assert [(c.kind, c.create, c.requires) for c in plan] == [
        (ChangeKind.REPLACE, made, {"stream_epoch": STREAM.epoch - 5})
    ]


def test_a_leader_that_was_frozen_while_its_stream_was_recreated_retires_no_row_of_the_new_life() -> None:
    young = Lease("shardId-000000000000", stream_epoch=STREAM.epoch + 5)
    assert rows_of_earlier_lives(STREAM, [young]) == ()


def test_rows_of_an_earlier_life_are_replaced_and_else_stay_until_the_present_life_has_a_row() -> None:
    older = [Lease(name, stream_epoch=STREAM.epoch - 1) for name in ("a", "b", "c")]
    before = replace(STREAM, epoch=STREAM.epoch - 1)
    made = [create(Lease(name), "new") for name in ("b", "d")]

    def turnover(*changes: Change, is_begun: bool) -> list[tuple[str, str]]:
        plan = plan_turnover(STREAM, older, changes, is_begun=is_begun)
        return [(change.key, change.kind) for change in plan]

    assert turnover(*made, is_begun=False) == [("b", "replace"), ("d", "create")]
    assert turnover(is_begun=False) == []
    [retired, *_] = plan_turnover(STREAM, older, made, is_begun=True)
    assert f"the life that began at {before.created_text}" in retired.why
    assert turnover(*made, is_begun=True) == [
        ("a", "retire"),
        ("c", "retire"),
        ("b", "replace"),
        ("d", "create"),
    ]


def test_rows_of_other_streams_in_the_table_are_neither_retired_nor_used() -> None:
    theirs = Lease("123456789012:other:5:s0", stream="123456789012:other:5", shard="s0", stream_epoch=5)
    older = Lease("123456789012:orders:5:s0", stream="123456789012:orders:5", shard="s0", stream_epoch=5)
    shards = [Shard("s0")]
    plan = plan_shard_sync(
        a_family(STREAM, shards),
        shards,
        [theirs, older],
        positions=Positions({STREAM: Origin(TRIM, VIRTUAL_ZERO)}),
        multi=True,
        sentinel=TRIM_HORIZON,
    )
    assert [(c.key, c.deletes) for c in plan] == [
        (older.key, True),
        (f"{STREAM.serialized}:s0", False),
    ]


def test_a_row_made_again_holds_the_landed_checkpoint_so_that_a_later_rollback_is_noticed() -> None:
    at = Positions({STREAM: Origin(TRIM, VIRTUAL_ZERO)}, {ShardKey(STREAM, "s0"): Position(5)})
    row = a_lease(STREAM, Shard("s0"), multi=False, positions=at, sentinel=TRIM_HORIZON)
    assert (row.checkpoint, row.landed) == (Checkpoint("5"), Checkpoint("5"))
    fresh = a_lease(STREAM, Shard("s1"), multi=False, positions=at, sentinel=TRIM_HORIZON)
    assert (fresh.checkpoint, fresh.landed) == (TRIM_HORIZON, None)


LOW, HIGH = HashRange(0, 9), HashRange(10, MAX_HASH_KEY)
BOTH_ROWS = (Lease("l", hash_range=LOW), Lease("h", hash_range=HIGH))


def token(*rows: Lease, **at: Position) -> str | None:
    shards = {ShardKey(STREAM, name): position for name, position in at.items()}
    return sync_token(STREAM, rows, Positions({STREAM: Origin(TRIM, VIRTUAL_ZERO)}, shards))


def test_syncs_are_left_out_only_while_open_rows_cover_all_hash_keys() -> None:
    assert token(*BOTH_ROWS) is not None
    assert token(BOTH_ROWS[0]) is None
    assert token(BOTH_ROWS[1]) is None
    assert token(replace(BOTH_ROWS[0], hash_range=HashRange(0, 8)), BOTH_ROWS[1]) is None
    assert token(*BOTH_ROWS, Lease("x")) is None, "the hash keys of the third row are unknown"
    assert token(replace(BOTH_ROWS[0], checkpoint=SHARD_END), BOTH_ROWS[1]) is None
    assert token() is None
    older = replace(BOTH_ROWS[0], stream_epoch=STREAM.epoch - 1)
    assert token(older, BOTH_ROWS[1]) is None, "a shard of the present life has no row yet"


def test_no_sync_is_left_out_while_an_unread_shard_waits_for_a_parent_of_which_nothing_is_known() -> None:
    """A late listing hid the parent, and its children cover its hash keys. Else the clean-up alone would find it."""
    unread = replace(BOTH_ROWS[0], parents=frozenset({"p"}))
    assert token(unread, BOTH_ROWS[1]) is None
    older = Lease("p", checkpoint=SHARD_END, stream_epoch=STREAM.epoch - 1)
    assert token(unread, BOTH_ROWS[1], older) is None, "the row is of an earlier life"
    assert token(unread, BOTH_ROWS[1], Lease("p", checkpoint=SHARD_END)) is not None
    assert token(unread, BOTH_ROWS[1], p=Position(5, ended=True)) is not None
    # At LATEST the parents of the first shards get no row for ever, and a shard may have no record for ever.
    read = [replace(unread, looked_at=VIRTUAL_ZERO), replace(unread, checkpoint=Checkpoint("5"))]
    assert all(token(row, BOTH_ROWS[1]) is not None for row in read)


def test_syncs_are_left_out_only_while_rows_and_ends_stay_the_same() -> None:
    quiet = token(*BOTH_ROWS, l=Position(5))
    assert token(*BOTH_ROWS, l=Position(6)) == quiet, "a position that moves on makes no new shard"
    assert token(*(replace(row, counter=9, owner="w2") for row in BOTH_ROWS), l=Position(5)) == quiet
    others = [
        token(*BOTH_ROWS, l=Position(5, ended=True)),
        token(*BOTH_ROWS, l=Position(5, ended=True, children=("c",))),
        token(*BOTH_ROWS),
        token(*BOTH_ROWS, Lease("c", hash_range=LOW), l=Position(5)),
        token(*(replace(row, stream_epoch=STREAM.epoch) for row in BOTH_ROWS), l=Position(5)),
    ]
    assert len({quiet, *others}) == 6
