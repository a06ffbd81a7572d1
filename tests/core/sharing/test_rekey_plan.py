"""Which lease rows get another key when `streams_mode` changes, and when there is no way to change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.lease_form import is_of_form, why_other_mode
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, lease_key
from headrace.pipeline.core.sharing.rekey_plan import Rekey, RekeyScene, plan_rekey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_767_225_600)
RETURNS = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/returns", 1_767_225_999)
TWIN = replace(RETURNS, epoch=ORDERS.epoch)
"""Another stream that was created in the same second as ORDERS."""


def key(number: int, stream: StreamId = ORDERS) -> ShardKey:
    return ShardKey(stream, f"shardId-{number:012d}")


def a_row(number: int, *, multi: bool, stream: StreamId = ORDERS, at: Checkpoint = TRIM_HORIZON) -> Lease:
    shard = key(number, stream)
    row = Lease(lease_key(shard, multi=multi), 7, at, stream_epoch=stream.epoch)
    return replace(row, stream=stream.serialized, shard=shard.shard_id) if multi else row


def a_lake(*streams: StreamId, **landed: int) -> Positions:
    """The lake table with the origins of these streams. `landed`: in shard 0 of the stream with this name, up to this number."""
    at = {key(0, stream): Position(landed[stream.name]) for stream in streams if stream.name in landed}
    return Positions({stream: Origin(TRIM, NOW) for stream in streams}, at)


def planned(rows: list[Lease], lake: Positions, *names: str, multi: bool, chosen: str | None = None) -> Rekey:
    plan = plan_rekey(RekeyScene(tuple(rows), lake, names, chosen=chosen), multi=multi)
    assert isinstance(plan, Rekey), plan
    return plan


def refused(rows: list[Lease], lake: Positions, *names: str, multi: bool, chosen: str | None = None) -> str:
    plan = plan_rekey(RekeyScene(tuple(rows), lake, names, chosen=chosen), multi=multi)
    assert isinstance(plan, Stop), plan
    assert "Nothing was changed" in plan.why
    return plan.why


def after(rows: list[Lease], plan: Rekey) -> dict[str, Lease]:
    """The rows as they are after the plan."""
    made = {change.key: change.create for change in plan.creations if change.create is not None}
    gone = {change.key for change in plan.deleted}
    return {k: row for k, row in ({row.key: row for row in rows} | made).items() if k not in gone}


BUSY = Lease(
    "shardId-000000000000",
    41,
    Checkpoint("4711", 3),
    owner="w1",
    checkpoint_owner="w2",
    owner_switches=2,
    parents=frozenset({"shardId-000000000009"}),
    children=frozenset({"shardId-000000000008"}),
    hash_range=HashRange(0, 9),
    throughput_kbps=1.5,
    stream_epoch=ORDERS.epoch,
    run_claim="run/1",
    wanted_by="run/2",
    landed=Checkpoint("4711", 3),
    looked_at=NOW,
    behind_ms=12,
    assigned_at=NOW,
    failure=Failure(NOW, "a reason"),
)


def test_a_row_keeps_all_that_it_tells_of_its_shard_and_loses_all_that_it_tells_of_its_worker():
    plan = planned([BUSY], a_lake(ORDERS, orders=4711), "orders", "returns", multi=True)
    (made,) = (change.create for change in plan.creations)
    assert made == replace(
        BUSY,
        key=f"{ORDERS.serialized}:shardId-000000000000",
        stream=ORDERS.serialized,
        shard="shardId-000000000000",
        owner=None,
        checkpoint_owner=None,
        run_claim=None,
        wanted_by=None,
        assigned_at=None,
    )
    assert made.parent_keys == {f"{ORDERS.serialized}:shardId-000000000009"}
    assert [change.key for change in plan.deleted] == [BUSY.key]
    assert plan.deleted[0].requires["checkpoint"] == BUSY.checkpoint


def test_there_and_back_again_the_rows_are_as_they_were():
    rows = [
        a_row(0, multi=False, at=Checkpoint("7")),
        a_row(1, multi=False),
        a_row(2, multi=False, at=SHARD_END),
    ]
    lake = a_lake(ORDERS, orders=7)
    there = after(rows, planned(rows, lake, "orders", "returns", multi=True))
    assert all(is_of_form(row, multi=True) for row in there.values())
    back = after([*there.values()], planned([*there.values()], lake, "orders", multi=False))
    assert back == {row.key: row for row in rows}


def test_rows_of_an_earlier_life_keep_their_life():
    older = replace(ORDERS, epoch=ORDERS.epoch - 9)
    rows = [a_row(0, multi=False), a_row(1, multi=False, stream=older)]
    made = after(rows, planned(rows, a_lake(ORDERS, older), "orders", multi=True))
    assert sorted(made) == sorted(
        [f"{ORDERS.serialized}:shardId-000000000000", f"{older.serialized}:shardId-000000000001"]
    )


def test_the_stream_is_the_one_whose_life_the_lake_table_knows_and_not_the_first_in_the_settings():
    rows = [a_row(0, multi=False)]
    made = after(rows, planned(rows, a_lake(ORDERS, RETURNS), "returns", "orders", multi=True))
    assert list(made) == [f"{ORDERS.serialized}:shardId-000000000000"]


def test_with_two_streams_of_one_second_a_person_has_to_name_the_stream():
    rows, lake = [a_row(0, multi=False)], a_lake(ORDERS, TWIN)
    assert "with --stream" in refused(rows, lake, "orders", "returns", multi=True)
    made = after(rows, planned(rows, lake, "orders", "returns", multi=True, chosen="returns"))
    assert list(made) == [f"{TWIN.serialized}:shardId-000000000000"]
    assert "aren't of the stream refunds" in refused(rows, lake, "orders", multi=True, chosen="refunds")


def test_rows_of_a_stream_that_the_lake_table_doesnt_know_are_left_alone():
    assert "landing.table" in refused([a_row(0, multi=False)], a_lake(RETURNS), "orders", multi=True)


def test_a_row_of_an_earlier_life_that_the_lake_table_has_dropped_goes_and_stops_nobody():
    former = replace(ORDERS, epoch=ORDERS.epoch - 100)
    rows = [
        a_row(0, multi=False, at=Checkpoint("5")),
        a_row(7, multi=False, stream=former, at=Checkpoint("4")),
    ]
    plan = planned(rows, a_lake(ORDERS, RETURNS, orders=5), "orders", multi=True)
    assert list(after(rows, plan)) == [lease_key(key(0), multi=True)]
    assert after(rows, plan)[lease_key(key(0), multi=True)].checkpoint == Checkpoint("5")
    why = next(change.why for change in plan.deleted if change.key == rows[1].key)
    assert "an earlier life of orders" in why
    assert any("1 lease row" in text and "earlier life of orders" in text for text in plan.sentences)


@pytest.mark.parametrize("is_left", [lambda n: n == 0, lambda n: n == 1, lambda _: True])
def test_a_command_that_was_killed_goes_on_whichever_rows_are_left(is_left: Callable[[int], bool]):
    former = replace(ORDERS, epoch=ORDERS.epoch - 100)
    rows = [a_row(0, multi=False), a_row(7, multi=False, stream=former)]
    lake = a_lake(ORDERS, RETURNS)
    made = list(after(rows, planned(rows, lake, "orders", multi=True)).values())
    left = [*made, *(row for n, row in enumerate(rows) if is_left(n))]
    assert list(after(left, planned(left, lake, "orders", multi=True)).values()) == made


def test_a_stream_of_which_the_lake_table_knows_all_lives_is_meant_before_one_of_which_it_knows_the_newest():
    former = replace(ORDERS, epoch=ORDERS.epoch - 100)
    rows = [a_row(0, multi=False), a_row(7, multi=False, stream=former)]
    plan = planned(rows, a_lake(ORDERS, former, TWIN), "orders", multi=True)
    assert {row.stream for row in after(rows, plan).values()} == {ORDERS.serialized, former.serialized}


def test_a_newer_life_that_the_lake_table_doesnt_know_is_left_alone_and_the_ways_out_are_said():
    """The table may have been rolled back to before that life."""
    newer = replace(ORDERS, epoch=ORDERS.epoch + 100)
    rows = [a_row(0, multi=False), a_row(7, multi=False, stream=newer)]
    for left in (rows, rows[1:], [*rows[1:], a_row(0, multi=True)]):
        why = refused(left, a_lake(ORDERS), "orders", multi=True)
        assert "landing.table or landing.catalog names another table" in why
        assert "delete" in why


def test_a_stream_that_the_settings_no_longer_name_is_named_in_the_plan():
    plan = planned([a_row(0, multi=False)], a_lake(ORDERS), "returns", multi=True)
    assert any(
        "the settings don't name orders" in line and "former stream" in line for line in plan.sentences
    )


@pytest.mark.parametrize("multi", [True, False])
def test_rows_of_another_program_keep_their_keys(*, multi: bool):
    rows = [replace(a_row(0, multi=not multi), stream_epoch=None)]
    assert "headrace adopt" in refused(rows, a_lake(ORDERS), "orders", multi=multi)


def test_the_way_back_is_open_until_a_second_stream_has_landed():
    rows = [a_row(0, multi=True), a_row(0, multi=True, stream=RETURNS)]
    plan = planned(rows, a_lake(ORDERS, RETURNS, orders=5), "orders", multi=False)
    assert list(after(rows, plan)) == ["shardId-000000000000"]
    assert "there is no way back any more" in refused(
        rows, a_lake(ORDERS, RETURNS, orders=5, returns=1), "orders", multi=False
    )


def test_an_ended_shard_without_a_record_counts_as_landed():
    rows = [a_row(0, multi=True), a_row(0, multi=True, stream=RETURNS)]
    lake = a_lake(ORDERS, RETURNS).with_shards({key(0, RETURNS): Position(ended=True)})
    assert "no way back" in refused(rows, lake, "orders", multi=False)


def test_the_settings_have_to_name_the_stream_that_stays():
    rows = [a_row(0, multi=True)]
    assert "lease rows are of orders; the settings name refunds" in refused(
        rows, a_lake(ORDERS), "refunds", multi=False
    )


def test_rows_that_are_left_over_go_and_the_others_stay():
    own = a_row(0, multi=False, at=Checkpoint("9"))
    left = a_row(0, multi=True, at=Checkpoint("7"))
    plan = planned([own, left], a_lake(ORDERS, orders=9), "orders", multi=False)
    assert (plan.creations, [change.key for change in plan.deleted]) == ((), [left.key])


def test_rows_of_a_stream_that_goes_may_be_all_that_is_left_over():
    own, left = a_row(0, multi=False), a_row(0, multi=True, stream=RETURNS)
    plan = planned([own, left], a_lake(ORDERS, RETURNS, orders=9), "orders", multi=False)
    assert (plan.creations, [change.key for change in plan.deleted]) == ((), [left.key])
    assert "no way back" in refused([own, left], a_lake(ORDERS, RETURNS, returns=9), "orders", multi=False)


@pytest.mark.parametrize("at", [Checkpoint("9"), SHARD_END])
def test_a_row_that_tells_of_more_than_the_lake_table_has_is_never_deleted_for_one_that_doesnt(
    at: Checkpoint,
):
    rows = [a_row(0, multi=False, at=at), a_row(0, multi=True, at=Checkpoint("7"))]
    assert "headrace reposition" in refused(rows, a_lake(ORDERS, orders=7), "orders", multi=True)


def test_without_rows_of_the_other_form_nothing_is_planned():
    assert planned([a_row(0, multi=True)], a_lake(ORDERS), "orders", multi=True).changes == ()


@pytest.mark.parametrize("multi", [True, False])
def test_an_application_without_rows_and_one_with_any_row_of_its_form_may_work(*, multi: bool):
    own, other = a_row(0, multi=multi), a_row(0, multi=not multi)
    assert why_other_mode([], multi=multi) is None
    assert why_other_mode([own, other, other], multi=multi) is None
    assert why_other_mode([replace(a_row(0, multi=True), shard="shardId-000000000005")], multi=multi) is None
    assert "2 lease rows" in (why_other_mode([other, other], multi=multi) or "")
