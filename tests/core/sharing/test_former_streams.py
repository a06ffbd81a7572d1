"""Each row says to which stream it belongs, and writes for one stream touch no row of another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.lease_form import is_of_form
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, lease_key
from headrace.pipeline.core.sharing.former_streams import (
    account_and_name,
    newest_lives,
    plan_forget,
    watch_former,
)
from headrace.pipeline.core.sharing.sync_plan import a_lease, plan_shard_sync, rows_of_stream

MINUTE = timedelta(minutes=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_stream(name: str, epoch: int, account: str = "123456789012") -> StreamId:
    return StreamId(f"arn:aws:kinesis:eu-west-1:{account}:stream/{name}", epoch)


def a_row(stream: StreamId, shard: int) -> Lease:
    listed = Shard(f"shardId-{shard:012d}")
    return a_lease(stream, listed, multi=True, positions=Positions(), sentinel=TRIM_HORIZON)


STREAMS = st.builds(
    a_stream,
    st.sampled_from(["orders", "orders-2", "order"]),
    st.integers(1, 4),
    st.sampled_from(["123456789012", "210987654321"]),
)
ROWS = st.lists(st.builds(a_row, STREAMS, st.integers(0, 3)), max_size=20, unique_by=lambda row: row.key)
SHARDS = st.lists(
    st.builds(
        Shard,
        st.integers(0, 5).map(lambda n: f"shardId-{n:012d}"),
        st.sampled_from([(), ("shardId-000000000000",)]),
    ),
    max_size=6,
    unique_by=lambda shard: shard.shard_id,
)


@given(stream=STREAMS, rows=ROWS, shards=SHARDS, placed=st.lists(STREAMS, max_size=4))
def test_a_sync_writes_rows_of_its_own_stream_only(
    stream: StreamId, rows: list[Lease], shards: list[Shard], placed: list[StreamId]
) -> None:
    at = {ShardKey(s, "shardId-000000000001"): Position(17) for s in placed}
    positions = Positions({stream: Origin(TRIM, NOW)}, at)
    mine = rows_of_stream(stream, rows)
    family = a_family(stream, shards, leases=mine, positions=positions)
    plan = plan_shard_sync(family, shards, rows, positions=positions, multi=True, sentinel=TRIM_HORIZON)
    whole = f"{stream.account}:{stream.name}:"
    assert all(change.key.startswith(whole) for change in plan)
    assert all(change.key.startswith(f"{stream.serialized}:") for change in plan if change.create)
    older = {row.key for row in mine if (row.stream_epoch or 0) < stream.epoch}
    assert {change.key for change in plan if change.deletes} == older


@given(stream=STREAMS, rows=ROWS)
def test_forgetting_a_stream_deletes_the_rows_of_all_its_lives_and_no_others(
    stream: StreamId, rows: list[Lease]
) -> None:
    ident = f"{stream.account}:{stream.name}"
    plan = plan_forget(ident, rows, "for the test")
    assert {change.key for change in plan} == {row.key for row in rows if account_and_name(row) == ident}
    assert all(change.deletes and change.requires["run_claim"] is None for change in plan)


@given(ROWS)
def test_the_newest_life_of_each_stream_is_known_by_its_rows(rows: list[Lease]) -> None:
    newest = newest_lives(rows)
    assert newest.keys() == {account_and_name(row) for row in rows}
    for ident, life in newest.items():
        assert (
            life == f"{ident}:{max(row.stream_epoch or 0 for row in rows if account_and_name(row) == ident)}"
        )


def test_a_row_fits_the_streams_mode_only_if_its_key_and_its_attributes_agree() -> None:
    stream = a_stream("orders", 17)
    row = a_row(stream, 0)
    assert is_of_form(row, multi=True)
    assert not is_of_form(row, multi=False)
    single = Lease(lease_key(ShardKey(stream, "shardId-000000000000"), multi=False))
    assert is_of_form(single, multi=False)
    assert not is_of_form(single, multi=True)
    for twisted in (
        Lease(row.key, stream=a_stream("returns", 17).serialized, shard=row.shard),
        Lease(row.key, stream=row.stream, shard="shardId-000000000001"),
        Lease("orders:shardId-000000000000", stream="orders", shard="shardId-000000000000"),
        Lease("1:orders:0:shardId-000000000000", stream="1:orders:0", shard="shardId-000000000000"),
    ):
        assert not is_of_form(twisted, multi=True)


def test_a_wait_is_counted_in_looks_and_begins_anew_after_a_long_silence() -> None:
    seen = watch_former({}, ["a"], since=None, tick=MINUTE)
    seen = watch_former(seen, ["a", "b"], since=MINUTE, tick=MINUTE)
    assert (seen["a"].credit, seen["b"].credit) == (MINUTE, timedelta(0))
    assert watch_former(seen, ["a"], since=5 * MINUTE, tick=MINUTE)["a"].credit == 2.5 * MINUTE
    for silence in (timedelta(hours=2), -MINUTE, None):
        assert watch_former(seen, ["a"], since=silence, tick=MINUTE) == {"a": Sighting("former")}
    assert watch_former(seen, [], since=MINUTE, tick=MINUTE) == {}
