"""A small family of shards of one stream, and the positions of its shards in the lake table."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import Family, a_family, parents_of
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
ORIGIN = {STREAM: Origin(TRIM, datetime(2026, 1, 1, tzinfo=UTC))}
END = Position(5, ended=True)
OPEN = Position(5)


def key(shard: str) -> ShardKey:
    return ShardKey(STREAM, shard)


def positions(**at: Position) -> Positions:
    return Positions(ORIGIN, {key(shard): position for shard, position in at.items()})


def a_split(*, listed: tuple[str, ...] = ("p", "a", "b"), rows: tuple[str, ...] = ()) -> Family:
    shards = {"p": Shard("p", closed=True), "a": Shard("a", ("p",)), "b": Shard("b", ("p",))}
    return a_family(STREAM, [shards[s] for s in listed], leases=[Lease(r) for r in rows])


def why(shard: str, family: Family, at: Positions, *, gone: bool = False) -> list[str]:
    """For each parent the reason why it is out of the way, or why the shard has to wait for it."""
    reasons, waiting = parents_of(shard, family, at, lambda _: gone)
    return [r.why.value for r in reasons] + [f"waits: {w.why}" for w in waiting]
