"""Offsets of `spark.readStream`, on a stream in this process."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.errors import WrongStream
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.source.application import SourceApplication
from headrace.pipeline.source.lake_range import LakeRange
from headrace.pipeline.source.options import RangeOptions, ReadFrom
from headrace.pipeline.source.stream_range import StreamRange
from headrace.pipeline.source.stream_reader import TimeReader
from tests.aws.pages_world import World


@dataclass
class OfWorld:
    """The ports of an application whose stream is in this process."""

    world: World

    def stream_range(self, options: RangeOptions) -> StreamRange:
        return StreamRange(
            source=KinesisSource(self.world.client), stream="orders", options=options, unpack=True
        )

    def lake_range(self, options: RangeOptions) -> LakeRange:
        raise AssertionError("a query of a stream doesn't look at the lake table")

    def pages(self) -> Pages:
        return self.world.reader()


def a_reader(world: World, **options: Any) -> TimeReader:
    application = cast("SourceApplication", OfWorld(world))
    return TimeReader(lambda: application, RangeOptions(place=ReadFrom.KINESIS, **options))


def numbers_of(reader: TimeReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    parts = reader.partitions(start, end)
    return [
        int(str(number))
        for part in parts
        for rows in reader.read(part)
        for number in rows["sequence_number"].to_pylist()
    ]


def test_micro_batches_that_follow_each_other_have_each_record_once():
    world = World()
    reader = a_reader(world)
    offsets, put, read = [reader.initialOffset()], list[int](), list[int]()
    for n in range(4):
        put += world.put(b"%d" % n, b"x%d" % n)
        if n == 1:
            world.split()
        world.aws.clock.advance(90)
        offsets.append(reader.latestOffset(offsets[-1]))
        read += numbers_of(reader, offsets[-2], offsets[-1])
    assert sorted(read) == sorted(put)
    # What Spark runs again after a failure has the same records.
    again = [numbers_of(reader, start, end) for start, end in pairwise(offsets)]
    assert sorted(number for batch in again for number in batch) == sorted(put)


def test_a_query_with_available_now_reads_up_to_what_was_there_at_its_start():
    world = World()
    world.put(b"there")
    world.aws.clock.advance(90)
    reader = a_reader(world)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    target = reader.latestOffset(start)
    world.put(b"later")
    world.aws.clock.advance(90)
    assert reader.latestOffset(start) == target
    assert len(numbers_of(reader, start, target)) == 1
    # The engine ends once nothing newer comes.
    assert reader.latestOffset(target) == target
    assert reader.partitions(target, target) == []


def test_a_query_ends_at_its_last_time_and_begins_at_its_first():
    world = World()
    world.put(b"before")
    since = world.now()
    (inside,) = world.put(b"inside")
    until = world.now()
    world.put(b"behind")
    world.aws.clock.advance(300)
    reader = a_reader(world, since=since, until=until)
    start = reader.initialOffset()
    assert numbers_of(reader, start, reader.latestOffset(start)) == [inside]


def test_an_offset_never_goes_back():
    world = World()
    world.aws.clock.advance(300)
    reader = a_reader(world)
    ahead = reader.latestOffset(reader.initialOffset())
    later = dict(ahead, through=(datetime.fromisoformat(ahead["through"]) + timedelta(hours=1)).isoformat())
    assert reader.latestOffset(later) == later


def test_a_checkpoint_of_another_life_of_the_stream_is_refused():
    world = World()
    reader = a_reader(world)
    start = reader.initialOffset()
    world.client.delete_stream(StreamName="orders")
    world.aws.clock.advance(3600)
    world.client.create_stream(StreamName="orders", ShardCount=1)
    world.aws.clock.advance(3600)
    with pytest.raises(WrongStream, match="another stream"):
        reader.partitions(start, reader.latestOffset(start))
