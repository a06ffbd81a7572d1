"""What the reader of DynamoDB tables' streams promises, on a double in memory and on AWS's own DynamoDB Local."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.dynamodb_streams.client import tapped
from headrace.pipeline.aws.dynamodb_streams.source import RETENTION, DynamoDbSource
from headrace.pipeline.aws.dynamodb_streams.table_pages import DynamoDbPages
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.order.cover import is_whole
from headrace.pipeline.core.shards.position import TRIM, Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.pages import RecordPage
from tests.contract.dynamodb_local.__main__ import NotAtHand, fetch, served
from tests.memory.table_streams import MemoryTableStreams

_KEYS: dict[str, Any] = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "region_name": "us-east-1",
}


class World(Protocol):
    source: DynamoDbSource
    pages: DynamoDbPages
    stream: StreamId

    def put(self, item: str, value: int) -> None: ...
    def roll_over(self) -> None: ...
    def switch_off(self) -> None: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.streams = MemoryTableStreams()
        self.source = DynamoDbSource(self.streams.client)
        self.pages = _pages(self.streams.client(is_tapped=True))
        self.stream = self.source.describe(self.streams.arn).stream

    def put(self, item: str, value: int) -> None:
        self.streams.put(item, value)

    def roll_over(self) -> None:
        self.streams.roll_over()

    def switch_off(self) -> None:
        self.streams.switch_off()


class LocalWorld:
    """A table of its own on AWS's DynamoDB Local."""

    def __init__(self, endpoint: str, number: int) -> None:
        import boto3
        from botocore.config import Config

        # The table name of the test control has brackets, which boto3 would refuse.
        unchecked = Config(parameter_validation=False)
        self.table = f"orders{number}"
        self.client: Any = boto3.client("dynamodb", endpoint_url=endpoint, config=unchecked, **_KEYS)
        self.client.create_table(
            TableName=self.table,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        arn = self.client.describe_table(TableName=self.table)["Table"]["LatestStreamArn"]
        self.source = DynamoDbSource(lambda: boto3.client("dynamodbstreams", endpoint_url=endpoint, **_KEYS))
        self.pages = _pages(tapped(boto3.client("dynamodbstreams", endpoint_url=endpoint, **_KEYS)))
        self.stream = self.source.describe(arn).stream

    def put(self, item: str, value: int) -> None:
        self.client.put_item(TableName=self.table, Item={"id": {"S": item}, "value": {"N": str(value)}})

    def roll_over(self) -> None:
        self.client.put_item(TableName="[TEST_CONTROL]", Item={"ACTION": {"S": "ROLLOVER"}})

    def switch_off(self) -> None:
        self.client.update_table(TableName=self.table, StreamSpecification={"StreamEnabled": False})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    try:
        fetch()
        with served() as place:
            yield place
    except NotAtHand as reason:
        pytest.skip(f"DynamoDB Local isn't at hand ({reason})")


@pytest.fixture(params=["memory", pytest.param("local", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        return MemoryWorld()
    place: str = request.getfixturevalue("endpoint")
    return LocalWorld(place, request.node.name.__hash__() % 10**9)


def _pages(client: Any) -> DynamoDbPages:
    host = Host(connect=lambda _: client, sleep=lambda _: None, monotonic=lambda: 0.0, dice=lambda: 0.0)
    return DynamoDbPages(access=KinesisAccess("us-east-1"), host=host)


def batch_of(world: World, shard: str, after: Position | None = None, iterator: str | None = None) -> Batch:
    return Batch(
        ShardKey(world.stream, shard),
        after=after,
        start=TRIM,
        witness=datetime.now(UTC),
        retention=RETENTION,
        iterator=iterator,
    )


def ids_of(world: World) -> list[str]:
    """The shards of a chain, the oldest first."""
    return sorted(shard.shard_id for shard in world.source.list_shards(world.stream))


def up_to_tip(pages: Iterator[RecordPage]) -> list[RecordPage]:
    read: list[RecordPage] = []
    for page in pages:
        read.append(page)
        if not page.behind or page.children is not None:
            break
    return read


def values_of(pages: list[RecordPage]) -> list[str]:
    documents = [
        json.loads(data or b"") for page in pages if page.records for data in page.records["data"].to_pylist()
    ]
    return [document["dynamodb"]["NewImage"]["value"]["N"] for document in documents]


def test_a_stream_is_the_life_that_its_label_tells(world: World):
    facts = world.source.describe(world.stream.arn)
    assert facts.view == "NEW_AND_OLD_IMAGES"

    assert facts.stream == world.stream
    assert world.stream.is_dynamodb
    assert facts.retention == timedelta(hours=24)
    assert world.source.describe(world.stream.serialized).stream == world.stream


def test_a_stream_that_isnt_there_is_unknown(world: World):
    arn = world.stream.arn[:-3] + "999"

    with pytest.raises(Unknown, match="LatestStreamArn"):
        world.source.describe(arn)


def test_records_are_read_in_order_with_their_keys_as_partition_key(world: World):
    for n in range(5):
        world.put(f"item {n % 2}", n)

    read = up_to_tip(world.pages.pages(batch_of(world, ids_of(world)[0])))

    assert values_of(read) == ["0", "1", "2", "3", "4"]
    keys = [key for page in read if page.records for key in page.records["partition_key"].to_pylist()]
    assert keys[:2] == ['{"id":{"S":"item 0"}}', '{"id":{"S":"item 1"}}']


def test_reading_goes_on_after_a_position_and_at_what_the_last_page_left(world: World):
    world.put("a", 1)
    (shard,) = ids_of(world)
    first = up_to_tip(world.pages.pages(batch_of(world, shard)))
    last = max(page.last_sequence for page in first if page.last_sequence is not None)
    world.put("a", 2)

    after = Position(last)
    assert values_of(up_to_tip(world.pages.pages(batch_of(world, shard, after)))) == ["2"]
    kept = batch_of(world, shard, after, iterator=first[-1].iterator)
    assert values_of(up_to_tip(world.pages.pages(kept))) == ["2"]


def test_a_shard_that_rolled_over_ends_with_its_child(world: World):
    world.put("a", 1)
    world.roll_over()
    world.put("a", 2)
    parent, child = ids_of(world)

    read = up_to_tip(world.pages.pages(batch_of(world, parent)))

    assert values_of(read) == ["1"]
    assert [c.shard_id for c in read[-1].children or ()] == [child]
    assert values_of(up_to_tip(world.pages.pages(batch_of(world, child)))) == ["2"]


def test_a_listing_is_a_chain_of_closed_shards_with_an_open_one_at_its_end(world: World):
    world.put("a", 1)
    world.roll_over()
    world.roll_over()

    shards = sorted(world.source.list_shards(world.stream), key=lambda shard: shard.shard_id)

    assert [shard.closed for shard in shards] == [True, True, False]
    assert [shard.parents for shard in shards] == [(), (shards[0].shard_id,), (shards[1].shard_id,)]
    assert all(shard.hash_range is None for shard in shards)
    assert is_whole(shards)
    assert not is_whole(shards[:2])


def test_an_idle_shard_has_news_with_a_record_and_with_its_end(world: World):
    world.put("a", 1)
    (shard,) = ids_of(world)
    key = ShardKey(world.stream, shard)
    last = up_to_tip(world.pages.pages(batch_of(world, shard)))[0].last_sequence or 0

    assert world.source.has_news({key: last}) == frozenset()
    world.put("a", 2)
    assert world.source.has_news({key: last}) == {key}
    world.roll_over()
    assert world.source.has_news({key: last + 10}) == {key}


def test_the_shards_of_a_stream_that_was_switched_off_end_without_children(world: World):
    world.put("a", 1)
    world.switch_off()
    (shard,) = ids_of(world)

    read = up_to_tip(world.pages.pages(batch_of(world, shard)))

    assert values_of(read) == ["1"]
    assert read[-1].children == ()
    assert is_whole(world.source.list_shards(world.stream))


def test_arrivals_are_told_of_records_that_are_there(world: World):
    world.put("a", 1)
    (shard,) = ids_of(world)
    (page, *_) = up_to_tip(world.pages.pages(batch_of(world, shard)))
    key = ShardKey(world.stream, shard)
    assert page.last_sequence is not None

    assert world.source.arrivals({key: page.last_sequence}) == {key: page.last_arrival}
    assert world.source.arrivals({key: page.last_sequence + 1}) == {}
