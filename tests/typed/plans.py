"""Positions of three shards, for tests of what a wave takes and accounts for."""

from datetime import UTC, datetime

from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
ORIGINS = {STREAM: Origin(TRIM, NOON)}
A, B, C = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(3))


def at(sequence: int, *, children: tuple[str, ...] | None = None, arrival: datetime = NOON) -> Position:
    return Position(sequence, ended=children is not None, children=children or (), arrival=arrival)


def positions(**shards: Position) -> Positions:
    keys = {"a": A, "b": B, "c": C}
    return Positions(ORIGINS, {keys[name]: position for name, position in shards.items()})
