"""A shard of which a wave is to begin to read, and what the plan says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import ParentReason
from headrace.pipeline.core.order.parents import InTheWay
from headrace.pipeline.core.order.start_of_reading import (
    Above,
    plan_begin,
)
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

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
    parents: tuple[ParentReason, ...] = (),
    waiting: tuple[InTheWay, ...] = (),
    passed_by: str | None = None,
    lost: tuple[datetime, ...] | None = None,
    by_rows: bool = False,
    **more: object,
) -> object:
    above = Above(parents, waiting, passed_by, lost)
    shards = dict(others or {})
    if position is not None:
        shards[KEY] = position
    positions = Positions(ORIGINS, shards, by_rows=by_rows)
    return plan_begin(row, KEY, positions, retention=DAY, above=above, **more)  # type: ignore[arg-type]


def row(checkpoint: Checkpoint = TRIM_HORIZON, landed: Checkpoint | None = None) -> Lease:
    return Lease(KEY.shard_id, checkpoint=checkpoint, landed=landed)
