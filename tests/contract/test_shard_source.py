"""What every implementation of the shard source promises."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import pytest

from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Terminal, Unknown
from headrace.pipeline.local.inprocess import InProcessKinesis
from headrace.pipeline.ports.reading import ShardSource
from tests.memory.clock import MemoryClock
from tests.memory.source import MemorySource

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

TRIM = Start()


class World(Protocol):
    """A source, and methods by which a test changes its streams."""

    source: ShardSource

    def create(self, name: str, shards: int = 1) -> StreamId: ...
    def delete(self, name: str) -> None: ...
    def tag(self, name: str, **tags: str) -> None: ...
    def put(self, key: ShardKey) -> int: ...
    def split(self, key: ShardKey) -> None: ...
    def merge(self, one: ShardKey, other: ShardKey) -> None: ...
    def advance(self, by: timedelta) -> None: ...
    def now(self) -> datetime: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.clock = MemoryClock()
        self.streams = MemorySource(self.clock)
        self.source: ShardSource = self.streams

    def create(self, name: str, shards: int = 1) -> StreamId:
        return self.streams.create_stream(name, shards)

    def delete(self, name: str) -> None:
        self.streams.delete_stream(name)

    def tag(self, name: str, **tags: str) -> None:
        self.streams.tag_stream(name, tags)

    def put(self, key: ShardKey) -> int:
        return self.streams.put(key)

    def split(self, key: ShardKey) -> None:
        self.streams.split(key)

    def merge(self, one: ShardKey, other: ShardKey) -> None:
        self.streams.merge(one, other)

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by)

    def now(self) -> datetime:
        return self.clock.now()


class KinesisWorld:
    """The product's source on the stand-in's Kinesis, with a clock that only the test moves."""

    def __init__(self) -> None:
        self.local = InProcessKinesis()
        self.client: KinesisClient = self.local.client()
        self.source: ShardSource = KinesisSource(self.client)

    def create(self, name: str, shards: int = 1) -> StreamId:
        self.client.create_stream(StreamName=name, ShardCount=shards)
        return self.source.describe(name).stream

    def delete(self, name: str) -> None:
        self.client.delete_stream(StreamName=name)

    def tag(self, name: str, **tags: str) -> None:
        there = [each["Key"] for each in self.client.list_tags_for_stream(StreamName=name)["Tags"]]
        if gone := sorted(set(there) - tags.keys()):
            self.client.remove_tags_from_stream(StreamName=name, TagKeys=gone)
        self.client.add_tags_to_stream(StreamName=name, Tags=tags)

    def put(self, key: ShardKey) -> int:
        start = self._hash_range(key)[0]
        answer = self.client.put_record(
            StreamARN=key.stream.arn, Data=b"{}", PartitionKey="key", ExplicitHashKey=str(start)
        )
        assert answer["ShardId"] == key.shard_id
        return int(answer["SequenceNumber"])

    def split(self, key: ShardKey) -> None:
        start, end = self._hash_range(key)
        self.client.split_shard(
            StreamARN=key.stream.arn,
            ShardToSplit=key.shard_id,
            NewStartingHashKey=str((start + end) // 2 + 1),
        )

    def merge(self, one: ShardKey, other: ShardKey) -> None:
        self.client.merge_shards(
            StreamARN=one.stream.arn, ShardToMerge=one.shard_id, AdjacentShardToMerge=other.shard_id
        )

    def advance(self, by: timedelta) -> None:
        self.local.clock.advance(by.total_seconds())

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.local.clock(), UTC)

    def _hash_range(self, key: ShardKey) -> tuple[int, int]:
        found = next(s for s in self.source.list_shards(key.stream) if s.shard_id == key.shard_id)
        assert found.hash_range is not None
        return found.hash_range.start, found.hash_range.end


@pytest.fixture(params=[MemoryWorld, KinesisWorld])
def world(request: pytest.FixtureRequest) -> World:
    made: World = request.param()
    return made


@pytest.fixture
def stream(world: World) -> StreamId:
    return world.create(f"orders-{uuid.uuid4().hex[:8]}", 2)


def shard(stream: StreamId, number: int) -> ShardKey:
    return ShardKey(stream, f"shardId-{number:012d}")


def ids(world: World, stream: StreamId, since: Start | None = None) -> list[int]:
    return sorted(int(s.shard_id[8:]) for s in world.source.list_shards(stream, since))


def test_a_stream_is_described_by_name_and_by_arn_alike(world: World, stream: StreamId):
    by_name, by_arn = world.source.describe(stream.name), world.source.describe(stream.arn)
    assert by_name == by_arn
    assert by_name.stream == stream
    assert by_name.retention == timedelta(hours=24)


def test_a_stream_is_described_by_its_serialized_name_whatever_epoch_that_contains(
    world: World, stream: StreamId
):
    assert world.source.describe(stream.serialized).stream == stream
    world.delete(stream.name)
    world.advance(timedelta(seconds=90))
    again = world.create(stream.name)
    assert world.source.describe(stream.serialized).stream == again
    with pytest.raises((Unknown, Terminal)):  # of another account: AWS refuses, and tells nothing
        world.source.describe(f"999999999999:{stream.name}:{stream.epoch}")


def test_streams_are_found_by_the_prefix_of_their_names(world: World):
    orders = [world.create(name) for name in ("orders-a", "orders-b")]
    world.create("returns-orders-")
    assert list(world.source.find_streams("orders-", {})) == orders
    assert world.source.find_streams("order", {}) == tuple(orders)
    assert world.source.find_streams("nothing", {}) == ()


def test_streams_are_found_only_if_all_tags_match(world: World):
    for name in ("orders-a", "orders-b", "orders-c", "returns"):
        world.create(name)
    world.tag("orders-a", team="shop", stage="live")
    world.tag("orders-b", team="shop", stage="trial")
    world.tag("returns", team="shop", stage="live", more="yes")
    found = {s.name for s in world.source.find_streams(None, {"team": "shop", "stage": "live"})}
    assert found == {"orders-a", "returns"}
    assert [s.name for s in world.source.find_streams("ret", {"team": "shop"})] == ["returns"]
    assert world.source.find_streams(None, {"team": "sho"}) == ()


def test_a_removed_tag_and_a_deleted_stream_are_noticed_at_the_next_look(world: World):
    for name in ("a", "b", "c"):
        world.create(name)
        world.tag(name, team="shop")
    assert [s.name for s in world.source.find_streams(None, {"team": "shop"})] == ["a", "b", "c"]
    world.tag("a", team="stock")
    world.delete("b")
    assert [s.name for s in world.source.find_streams(None, {"team": "shop"})] == ["c"]


def test_a_long_list_of_streams_is_complete_and_each_has_its_epoch(world: World):
    made = {world.create(f"orders-{n:03d}") for n in range(120)}
    assert set(world.source.find_streams("orders-", {})) == made


def test_the_date_of_a_description_is_kinesis_time_in_whole_seconds(world: World, stream: StreamId):
    world.advance(timedelta(hours=3, milliseconds=300))
    asked = world.source.describe(stream.name).asked
    assert asked.tzinfo is not None
    assert timedelta(0) <= world.now() - asked < timedelta(seconds=1)


def test_a_recreated_stream_has_another_epoch(world: World, stream: StreamId):
    world.delete(stream.name)
    world.advance(timedelta(seconds=90))
    again = world.create(stream.name)
    assert again.arn == stream.arn
    assert again.epoch == stream.epoch + 90


@pytest.mark.parametrize("ask", ["describe", "list_shards", "is_gone"])
def test_the_error_for_a_missing_stream_names_it(world: World, ask: str):
    absent = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/absent", 1)
    asked = {
        "describe": lambda: world.source.describe("absent"),
        "list_shards": lambda: world.source.list_shards(absent),
        "is_gone": lambda: world.source.is_gone(shard(absent, 0)),
    }
    with pytest.raises(Unknown, match="absent"):
        asked[ask]()


def test_shards_cover_every_hash_key_once(world: World, stream: StreamId):
    ranges = sorted(s.hash_range for s in world.source.list_shards(stream) if s.hash_range)
    assert (ranges[0].start, ranges[-1].end) == (0, MAX_HASH_KEY)
    assert ranges[0].end + 1 == ranges[1].start
    assert not any(s.closed or s.parents for s in world.source.list_shards(stream))


def test_a_split_closes_a_shard_and_opens_its_two_children(world: World, stream: StreamId):
    world.split(shard(stream, 0))
    found = {s.shard_id: s for s in world.source.list_shards(stream)}
    assert [found[shard(stream, i).shard_id].closed for i in range(4)] == [True, False, False, False]
    assert [found[shard(stream, i).shard_id].parents for i in (2, 3)] == [("shardId-000000000000",)] * 2


def test_a_merged_shard_names_both_its_parents(world: World, stream: StreamId):
    world.merge(shard(stream, 0), shard(stream, 1))
    merged = next(s for s in world.source.list_shards(stream) if s.shard_id == shard(stream, 2).shard_id)
    assert set(merged.parents) == {"shardId-000000000000", "shardId-000000000001"}


def test_a_listing_from_a_moment_on_leaves_out_shards_closed_before_it(world: World, stream: StreamId):
    world.advance(timedelta(minutes=10))
    world.split(shard(stream, 0))
    world.advance(timedelta(minutes=10))
    assert ids(world, stream, Start(world.now())) == [1, 2, 3]
    assert ids(world, stream, Start(world.now() - timedelta(minutes=15))) == [0, 1, 2, 3]


@pytest.mark.parametrize("since", [None, TRIM])
def test_a_listing_from_trim_horizon_on_has_all_shards(world: World, stream: StreamId, since: Start | None):
    world.advance(timedelta(minutes=10))
    world.split(shard(stream, 0))
    world.advance(timedelta(minutes=10))
    assert ids(world, stream, since) == [0, 1, 2, 3]


def test_a_listing_from_before_the_streams_creation_has_all_shards(world: World, stream: StreamId):
    assert ids(world, stream, Start(datetime.fromtimestamp(stream.epoch, UTC) - timedelta(days=400))) == [
        0,
        1,
    ]


def test_a_long_list_of_shards_is_complete(world: World):
    wide = world.create("wide", 2_300)
    found = world.source.list_shards(wide)
    assert ids(world, wide) == list(range(2_300))
    assert len(found) == 2_300


def test_a_closed_shard_is_gone_once_its_last_record_is_past_retention(world: World, stream: StreamId):
    world.put(shard(stream, 0))
    world.split(shard(stream, 0))
    assert not world.source.is_gone(shard(stream, 0))
    world.advance(timedelta(hours=26))
    assert world.source.is_gone(shard(stream, 0))
    assert not world.source.is_gone(shard(stream, 1))


def test_a_shard_that_never_existed_counts_as_gone(world: World, stream: StreamId):
    assert world.source.is_gone(shard(stream, 99))


def test_an_empty_shard_has_no_news(world: World, stream: StreamId):
    starts = {shard(stream, 0): TRIM, shard(stream, 1): Start(world.now())}
    assert world.source.has_news(starts) == frozenset()
    assert world.source.has_news({}) == frozenset()


def test_a_shard_has_news_until_the_position_has_passed_its_last_record(world: World, stream: StreamId):
    first = world.put(shard(stream, 0))
    assert world.source.has_news({shard(stream, 0): TRIM, shard(stream, 1): TRIM}) == {shard(stream, 0)}
    assert world.source.has_news({shard(stream, 0): first}) == frozenset()
    world.put(shard(stream, 0))
    assert world.source.has_news({shard(stream, 0): first}) == {shard(stream, 0)}


def test_each_look_finds_the_news_until_the_position_moves(world: World, stream: StreamId):
    world.put(shard(stream, 0))
    for _ in range(3):
        assert world.source.has_news({shard(stream, 0): TRIM}) == {shard(stream, 0)}


def test_a_record_that_was_put_between_two_looks_is_found(world: World, stream: StreamId):
    at = world.put(shard(stream, 0))
    for _ in range(3):
        assert world.source.has_news({shard(stream, 0): at}) == frozenset()
        world.advance(timedelta(seconds=15))
    world.put(shard(stream, 0))
    assert world.source.has_news({shard(stream, 0): at}) == {shard(stream, 0)}


def test_a_look_hours_after_the_last_one_finds_new_records(world: World, stream: StreamId):
    at = world.put(shard(stream, 0))
    assert world.source.has_news({shard(stream, 0): at}) == frozenset()
    world.advance(timedelta(hours=2))
    assert world.source.has_news({shard(stream, 0): at}) == frozenset()


def test_the_end_of_a_shard_counts_as_news(world: World, stream: StreamId):
    at = world.put(shard(stream, 0))
    assert world.source.has_news({shard(stream, 0): at}) == frozenset()
    world.split(shard(stream, 0))
    assert world.source.has_news({shard(stream, 0): at}) == {shard(stream, 0)}


def test_a_shard_that_cannot_be_looked_at_counts_as_having_news(world: World, stream: StreamId):
    assert world.source.has_news({shard(stream, 99): TRIM, shard(stream, 1): TRIM}) == {shard(stream, 99)}


def test_of_many_shards_only_those_with_records_have_news(world: World):
    wide = world.create("wide", 40)
    fresh = {shard(wide, i) for i in range(0, 40, 7)}
    for key in sorted(fresh):
        world.put(key)
    assert world.source.has_news({shard(wide, i): TRIM for i in range(40)}) == fresh


def test_the_arrival_of_a_record_is_found_by_its_sequence_number(world: World, stream: StreamId):
    at = world.put(shard(stream, 0))
    then = world.now()
    world.put(shard(stream, 0))
    found = world.source.arrivals({shard(stream, 0): at})
    assert abs(found[shard(stream, 0)] - then) < timedelta(seconds=1)
    assert world.source.arrivals({}) == {}


def test_the_arrival_of_a_trimmed_record_is_unknown_though_later_records_exist(
    world: World, stream: StreamId
):
    at = world.put(shard(stream, 0))
    world.advance(timedelta(hours=25))
    world.put(shard(stream, 0))
    gone = ShardKey(stream, "shardId-000000000099")
    assert world.source.arrivals({shard(stream, 0): at, gone: at}) == {}


def test_a_shard_had_ended_before_a_moment_only_if_it_was_closed_and_has_no_later_record(
    world: World, stream: StreamId
):
    world.put(shard(stream, 0))
    world.advance(timedelta(seconds=5))
    world.split(shard(stream, 0))
    world.advance(timedelta(seconds=5))
    then = world.now()
    world.advance(timedelta(seconds=5))
    world.put(shard(stream, 1))
    world.advance(timedelta(seconds=5))
    world.split(shard(stream, 1))
    assert world.source.ended_before(shard(stream, 0), then)
    assert not world.source.ended_before(shard(stream, 0), then - timedelta(seconds=12))
    assert not world.source.ended_before(shard(stream, 1), then), (
        "the shard holds a record from after that moment"
    )
    assert not world.source.ended_before(shard(stream, 2), then), "the shard is open"
