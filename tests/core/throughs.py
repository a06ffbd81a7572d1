"""A stream of two shards, and how far they have landed, for the tests of `valid-through`."""

from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

ORDERS = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_700_000_000)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HALVES = (HashRange(0, 9), HashRange(10, MAX_HASH_KEY))
LEFT, RIGHT = (Shard("left", hash_range=HALVES[0]), Shard("right", hash_range=HALVES[1]))


def key(shard: str, stream: StreamId = ORDERS) -> ShardKey:
    return ShardKey(stream, shard)


def positions(stream: StreamId = ORDERS, **at: Position) -> Positions:
    return Positions({stream: Origin(TRIM, NOON - HOUR)}, {key(s, stream): p for s, p in at.items()})


def read(until: datetime, number: int = 5) -> Position:
    return Position(number, arrival=until)


def ended(until: datetime, *children: str) -> Position:
    return Position(5, ended=True, arrival=until, children=children)
