"""A small world with two streams in one application."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from headrace.pipeline.ports.reading import StreamFacts
from tests.duties.world import STREAM, World

RETURNS = "returns"
BOTH_STREAMS = (STREAM, RETURNS)


def two_streams(**how: object) -> World:
    return World(more_streams=(RETURNS,), **how)  # type: ignore[arg-type]


def rows_by_stream(world: World) -> Counter[str]:
    return Counter(row.stream or "" for row in world.leases.scan().leases)


def fail_for(world: World, stream: str, error: Exception) -> None:
    """Let DescribeStreamSummary fail for this stream. Kinesis still answers for the other streams."""
    describe = world.source.describe

    def fail(name: str) -> StreamFacts:
        facts = describe(name)
        if facts.stream.name == stream:
            raise error
        return facts

    world.source.describe = fail  # type: ignore[method-assign]


def let_kinesis_answer(world: World) -> None:
    del world.source.describe


def recreate(world: World, name: str) -> None:
    world.source.delete_stream(name)
    world.clock.advance(timedelta(seconds=90))
    made = world.source.create_stream(name, world.shards)
    if name == STREAM:
        world.stream = made


# -- leader --------------------------------------------------------------------------------------------------------
