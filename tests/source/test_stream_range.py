"""Ranges of a stream in this process: what is planned, and what tasks read of it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import BadSetting, DataLoss, Transient, Unknown
from headrace.pipeline.settings.choices import OnDataLoss
from headrace.pipeline.source.options import RangeOptions
from headrace.pipeline.source.shard_read import ShardPart, read_shard
from headrace.pipeline.source.stream_range import StreamRange
from tests.aws.pages_world import World
from tests.lake.samples import NOON, StandingClock
from tests.lake.stage_script import a_batch, a_page, script

FIRST = "shardId-000000000000"
DAY = 24 * 3600.0


def a_range(world: World, **options: Any) -> StreamRange:
    return StreamRange(
        source=KinesisSource(world.client), stream="orders", options=RangeOptions(**options), unpack=True
    )


def parts_of(world: World, **options: Any) -> list[ShardPart]:
    stream = a_range(world, **options)
    return stream.parts(stream.options.since, stream.options.until, stream.facts())


def rows_of(world: World, parts: list[ShardPart]) -> list[dict[str, object]]:
    return [row for part in parts for rows in read_shard(part, world.reader()) for row in rows.to_pylist()]


def numbers_of(world: World, parts: list[ShardPart]) -> list[int]:
    return [int(str(row["sequence_number"])) for row in rows_of(world, parts)]


def test_a_data_frame_has_all_records_with_children_after_their_parents():
    world = World()
    before = world.put(b"1", b"2")
    world.split()
    after = [*world.put(b"3", key="customer"), *world.put(b"4", key="another")]

    parts = parts_of(world)
    rows = rows_of(world, parts)

    assert parts[0].batch.key.shard_id == FIRST
    assert [int(str(row["sequence_number"])) for row in rows[:2]] == before
    assert {int(str(row["sequence_number"])) for row in rows[2:]} == set(after)
    assert [row["shard_generation"] for row in rows] == [0, 0, 1, 1]
    assert [row["data"] for row in rows[:2]] == [b"1", b"2"]
    assert all(str(row["sort_key"]).split(":")[1] == row["sequence_number"] for row in rows)


def test_ranges_of_times_that_follow_each_other_have_each_record_once():
    world, cuts = World(), list[datetime]()
    numbers: list[int] = []
    for n in range(6):
        cuts.append(world.now())
        numbers += world.put(b"%d" % n, b"x%d" % n)
        if n == 2:
            world.split()
        world.aws.clock.advance(40)
    world.aws.clock.advance(300)

    read = [
        numbers_of(world, parts_of(world, since=since, until=until))
        for since, until in zip([None, *cuts], [*cuts, None], strict=True)
    ]

    assert [len(few) for few in read] == [0, *[2] * 6]
    assert sorted(number for few in read for number in few) == sorted(numbers)


def test_reading_ends_a_while_after_the_times_and_not_at_the_tip():
    pages = script(
        s0=[
            a_page(1, arrival=NOON, behind=9),
            a_page(2, arrival=NOON + timedelta(seconds=61), behind=8),
            # Its arrival time is behind that of the record before it.
            a_page(3, arrival=NOON + timedelta(seconds=30), behind=7),
            a_page(4, arrival=NOON + timedelta(seconds=121), behind=6),
            AssertionError("no page after that is asked for"),
        ]
    )
    part = ShardPart(batch=a_batch(), until=NOON + timedelta(seconds=60))
    rows = [row for rows in read_shard(part, pages, StandingClock()) for row in rows.to_pylist()]
    assert [row["sequence_number"] for row in rows] == ["1", "3"]


def test_sequence_numbers_are_read_after_the_first_and_up_to_the_last():
    world = World()
    numbers = world.put(*(b"%d" % n for n in range(5)))
    parts = parts_of(world, shard=FIRST, after=numbers[0], upto=numbers[3])
    assert numbers_of(world, parts) == numbers[1:4]
    assert numbers_of(world, parts_of(world, shard=FIRST, after=numbers[3])) == numbers[4:]
    assert numbers_of(world, parts_of(world, shard=FIRST, upto=numbers[0])) == numbers[:1]


def test_a_last_record_that_isnt_there_yet_is_told():
    world = World()
    (number,) = world.put(b"1")
    with pytest.raises(Unknown, match="no record with the sequence number"):
        numbers_of(world, parts_of(world, shard=FIRST, upto=number + 10**20))


def test_a_shard_that_isnt_there_and_a_time_that_is_still_to_come_are_refused():
    world = World()
    with pytest.raises(Unknown, match="there is no shard 'shardId-7'"):
        parts_of(world, shard="shardId-7")
    with pytest.raises(BadSetting, match="still to come"):
        parts_of(world, until=world.now() + timedelta(minutes=1))


def test_records_that_left_the_stream_stop_a_range_of_times_unless_it_goes_on():
    world = World()
    since = world.now()
    world.put(b"lost")
    world.split()
    world.aws.clock.advance(DAY + 3600)
    still_there = world.put(b"there")

    with pytest.raises(DataLoss, match="may have left the stream"):
        parts_of(world, since=since)
    continuing = a_range(world, since=since, on_data_loss=OnDataLoss.CONTINUE)
    parts = continuing.parts(since, None, continuing.facts())
    assert numbers_of(world, parts) == still_there


def test_the_losses_of_a_range_name_the_shards_that_may_have_lost_records_and_no_younger_ones():
    world = World()
    since = world.now()
    world.put(b"lost")
    world.aws.clock.advance(DAY)
    world.split()
    world.put(b"there")
    world.aws.clock.advance(3600)

    losses = a_range(world, since=since).losses()

    assert [(loss.shard_id, loss.kind) for loss in losses] == [(FIRST, "retention")]
    assert losses[0].since == since
    assert losses[0].until == world.now() + timedelta(seconds=1) - timedelta(days=1)
    assert a_range(world, since=world.now() - timedelta(hours=1)).losses() == []
    assert a_range(world).losses() == []


def test_the_losses_after_a_record_that_left_the_stream_are_told():
    world = World()
    (number,) = world.put(b"lost")
    assert a_range(world, shard=FIRST, after=number).losses() == []
    world.aws.clock.advance(DAY + 3600)
    world.put(b"there")
    (loss,) = a_range(world, shard=FIRST, after=number).losses()
    assert (loss.shard_id, loss.after_sequence) == (FIRST, str(number))


def test_records_that_leave_the_stream_while_it_is_read_stop_the_query():
    part = ShardPart(batch=a_batch(), until=NOON + timedelta(days=3))
    pages = script(
        s0=[
            a_page(1, behind=9),
            a_page(2, arrival=NOON + timedelta(hours=2), answered=NOON + timedelta(hours=25)),
        ]
    )
    rows = read_shard(part, pages, StandingClock())
    assert next(rows)["sequence_number"].to_pylist() == ["1"]
    with pytest.raises(DataLoss, match="on_data_loss"):
        next(rows)


def test_a_query_that_goes_on_has_all_records_on_both_sides_of_such_a_loss():
    part = ShardPart(batch=replace(a_batch(), goes_on=True), until=NOON + timedelta(days=3))
    after = a_page(2, arrival=NOON + timedelta(hours=2), answered=NOON + timedelta(hours=25))
    asked: list[Position | None] = []

    class Twice:
        def pages(self, batch):
            asked.append(batch.after)
            steps = [a_page(1, behind=9), after] if batch.after is None else [after]
            yield from steps

    rows = [
        number
        for rows in read_shard(part, Twice(), StandingClock())
        for number in rows["sequence_number"].to_pylist()
    ]
    assert rows == ["1", "2"]
    assert [None if position is None else position.sequence for position in asked] == [None, 1]


def test_children_that_a_late_list_of_shards_hides_stop_the_query():
    world = World()
    world.put(b"1")
    parts = parts_of(world)
    world.split()
    world.put(b"2")
    with pytest.raises(Transient, match="shardId-000000000001, shardId-000000000002, which Kinesis's list"):
        rows_of(world, parts)
    assert len(rows_of(world, parts_of(world))) == 2
    # Of a range of one shard, children are no part.
    assert len(rows_of(world, parts_of(world, shard=FIRST))) == 1


def test_a_list_of_shards_that_leaves_hash_keys_out_isnt_planned_by():
    world = World(shards=2)
    source = KinesisSource(world.client)

    class Late(KinesisSource):
        def list_shards(self, stream, since=None):
            return source.list_shards(stream, since)[:1]

    late = replace(a_range(world), source=Late(world.client))
    with pytest.raises(Transient, match="leaves hash keys out"):
        late.parts(None, None, late.facts())
