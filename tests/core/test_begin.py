"""Where a wave begins to read a shard, and when it must not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipeline.core.begin import Finish, Read, Stop, Wait, plan_begin
from pipeline.core.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.lineage import ParentIs, ParentReason
from pipeline.core.order import InTheWay
from pipeline.core.position import TRIM, Origin, Position, Positions, Start
from pipeline.core.stream import ShardKey, StreamId

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
KEY = ShardKey(STREAM, "shardId-000000000001")
PARENT = ShardKey(STREAM, "shardId-000000000000")
DAY = timedelta(days=1)
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
ORIGINS = {STREAM: Origin(Start(MOMENT), MOMENT)}


def begin(
    row: Lease,
    position: Position | None = None,
    *,
    others: dict[ShardKey, Position] | None = None,
    **more: object,
) -> object:
    shards = dict(others or {})
    if position is not None:
        shards[KEY] = position
    return plan_begin(row, KEY, Positions(ORIGINS, shards), retention=DAY, **more)  # type: ignore[arg-type]


def row(checkpoint: Checkpoint = TRIM_HORIZON, landed: Checkpoint | None = None) -> Lease:
    return Lease(KEY.shard_id, checkpoint=checkpoint, landed=landed)


def test_a_first_read_of_a_root_begins_at_the_origin() -> None:
    plan = begin(row())
    assert isinstance(plan, Read)
    assert plan.batch.start == Start(MOMENT)
    assert plan.batch.after is None
    assert plan.batch.witness == MOMENT


def test_a_child_of_a_placed_parent_begins_at_trim_horizon_and_inherits_its_witness() -> None:
    seen = MOMENT + timedelta(hours=3)
    parent = Position(7, ended=True, arrival=MOMENT, seen=seen)
    reasons = (ParentReason(PARENT.shard_id, ParentIs.ENDED),)
    plan = begin(row(), others={PARENT: parent}, parents=reasons)
    assert isinstance(plan, Read)
    assert plan.batch.start == TRIM
    assert plan.batch.witness == seen
    assert plan.batch.parents == reasons


def test_a_child_of_a_parent_from_before_the_start_begins_at_the_origin() -> None:
    plan = begin(row(), parents=(ParentReason(PARENT.shard_id, ParentIs.BEFORE_START),))
    assert isinstance(plan, Read)
    assert plan.batch.start == Start(MOMENT)


def test_a_shard_whose_parents_are_in_the_way_waits() -> None:
    plan = begin(row(), waiting=(InTheWay(PARENT.shard_id, "it stands at 7"),))
    assert plan == Wait("it stands at 7")


def test_reading_goes_on_from_the_table_and_a_row_behind_it_is_repaired() -> None:
    plan = begin(row(Checkpoint("5"), Checkpoint("5")), Position(9))
    assert isinstance(plan, Read)
    assert plan.batch.after == Position(9)
    assert plan.repair == Checkpoint("9")


def test_sequence_numbers_compare_as_numbers() -> None:
    plan = begin(row(Checkpoint("9")), Position(10))
    assert isinstance(plan, Read)
    assert plan.repair == Checkpoint("10")


def test_a_row_at_the_tables_position_needs_no_repair() -> None:
    plan = begin(row(Checkpoint("9"), Checkpoint("9")), Position(9))
    assert isinstance(plan, Read)
    assert plan.repair is None


def test_a_shard_that_ended_in_the_table_is_only_finished() -> None:
    ended = Position(9, ended=True, children=("shardId-000000000002",))
    assert begin(row(), ended) == Finish(ended)
    assert begin(row(SHARD_END, SHARD_END), ended) == Finish(ended)


def test_our_own_checkpoint_ahead_of_the_table_is_a_rollback() -> None:
    plan = begin(row(Checkpoint("9"), Checkpoint("9")), Position(5))
    assert isinstance(plan, Stop)
    assert "rolled back" in plan.why


def test_a_foreign_checkpoint_ahead_of_the_table_is_another_reader() -> None:
    plan = begin(row(Checkpoint("9"), Checkpoint("5")), Position(5))
    assert isinstance(plan, Stop)
    assert "isn't Headrace" in plan.why


def test_shard_end_in_the_row_alone_is_another_reader() -> None:
    plan = begin(row(SHARD_END), Position(5))
    assert isinstance(plan, Stop)
    assert "isn't Headrace" in plan.why


def test_digits_in_a_row_whose_shard_has_no_position_are_refused() -> None:
    plan = begin(row(Checkpoint("5")))
    assert isinstance(plan, Stop)
    assert "no position" in plan.why


def test_without_an_origin_nothing_is_read() -> None:
    plan = plan_begin(row(), KEY, Positions(), retention=DAY)
    assert isinstance(plan, Wait)


def test_a_shard_that_was_only_seen_empty_still_begins_at_its_start() -> None:
    seen = MOMENT + timedelta(hours=9)
    plan = begin(row(), Position(seen=seen))
    assert isinstance(plan, Read)
    assert plan.batch.start == Start(MOMENT)
    assert plan.batch.witness == seen


def test_a_position_with_a_start_of_its_own_begins_there() -> None:
    plan = begin(row(), Position(start=TRIM))
    assert isinstance(plan, Read)
    assert plan.batch.start == TRIM


def test_the_witness_of_an_unread_root_is_the_moment_named_if_it_was_in_reach_then() -> None:
    decided = MOMENT
    for before, witness in (
        (timedelta(hours=2), decided - timedelta(hours=2)),
        (timedelta(days=3), decided),
        (timedelta(hours=-2), decided),
    ):
        origins = {KEY.stream: Origin(Start(decided - before), decided)}
        plan = plan_begin(row(), KEY, Positions(origins), retention=DAY)
        assert isinstance(plan, Read)
        assert plan.batch.witness == witness
