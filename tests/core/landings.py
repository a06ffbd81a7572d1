"""Ranges, staged files and positions of one stream's shards, for the tests of the landing decision."""

from dataclasses import replace
from datetime import UTC, datetime

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_700_000_000)
LATER_LIFE = replace(STREAM, epoch=1_800_000_000)
ORIGIN = Origin(Start(), NOON)
KEYS = [ShardKey(STREAM, f"shardId-{i:012d}") for i in range(7)]
A, B, C, D = KEYS[:4]
PARENT = A.shard_id


def landed(key: ShardKey, after: Position | None, upto: Position, **more: object) -> Range:
    return Range(Kind.LANDED, key, after, upto, "run", "run/1", **more)  # type: ignore[arg-type]


def a_file(path: str, *keys: ShardKey) -> StagedFile:
    return StagedFile(path, frozenset(keys), 1, 1, b"", "2026-01-01", NOON)


def base_of(at: dict[ShardKey, Position | None], *, origin: bool = True) -> Positions:
    """The positions of a table; shards with None have none."""
    return Positions({STREAM: ORIGIN} if origin else {}, {k: p for k, p in at.items() if p is not None})
