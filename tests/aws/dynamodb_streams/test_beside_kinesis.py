"""Streams of Kinesis and of DynamoDB tables beside each other: each is asked, and read, by its own kind."""

import pickle
from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.dynamodb_streams.source import DynamoDbSource
from headrace.pipeline.aws.dynamodb_streams.table_pages import DynamoDbPages
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.aws.reading.by_stream import ReadersByStream, SourcesByStream
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.aws.pages_world import World
from tests.memory.table_streams import MemoryTableStreams


class Both:
    def __init__(self) -> None:
        self.world = World()
        self.table = MemoryTableStreams()
        self.connections = 0
        self.source = SourcesByStream(KinesisSource(self.world.client), {}, DynamoDbSource(self._connect))

    def _connect(self) -> Any:
        self.connections += 1
        return self.table.client()

    @property
    def of_table(self) -> ShardKey:
        return ShardKey(self.source.describe(self.table.arn).stream, self.table.shards[0].shard_id)


def test_each_stream_is_described_and_listed_by_its_own_kind():
    both = Both()

    stream, table = (both.source.describe(name).stream for name in ("orders", both.table.arn))

    assert (stream.is_dynamodb, table.is_dynamodb) == (False, True)
    assert stream == both.world.stream
    assert [shard.shard_id for shard in both.source.list_shards(stream)] == [both.world.key().shard_id]
    assert [shard.shard_id for shard in both.source.list_shards(table)] == [both.table.shards[0].shard_id]
    assert not both.source.is_gone(both.world.key())
    assert not both.source.is_gone(both.of_table)


def test_news_and_arrivals_of_both_kinds_come_together():
    both = Both()
    [number] = both.world.put(b"1")
    change = both.table.put("item", 1)
    kinesis, table = both.world.key(), both.of_table

    assert both.source.has_news({kinesis: TRIM, table: TRIM}) == {kinesis, table}
    assert set(both.source.arrivals({kinesis: number, table: change})) == {kinesis, table}
    assert both.source.has_news({table: TRIM}) == {table}
    assert both.source.has_news({kinesis: TRIM}) == {kinesis}


def test_dynamodb_is_connected_once_and_only_for_an_application_that_reads_a_table():
    both = Both()
    both.source.describe("orders")
    both.source.has_news({both.world.key(): TRIM})
    assert both.source.aws_now() is not None
    assert both.connections == 0

    both.table.now += timedelta(days=365 * 10)
    both.source.describe(both.table.arn)
    both.source.describe(both.table.arn)

    assert both.connections == 1
    assert both.source.aws_now() >= both.table.now  # type: ignore[operator] # both have answered


@pytest.mark.parametrize("is_table", [False, True])
def test_a_task_reads_each_shard_by_the_reader_of_its_kind(*, is_table: bool):
    both = Both()
    both.world.put(b"of Kinesis")
    both.table.put("of the table", 1)
    client = both.table.client(is_tapped=True)
    host = Host(connect=lambda _: client, sleep=lambda _: None, monotonic=lambda: 0.0)
    tables = DynamoDbPages(access=KinesisAccess("us-east-1"), host=host)
    reader = ReadersByStream.of(both.world.reader(), {}, tables)
    key = both.of_table if is_table else both.world.key()

    page = next(reader.pages(Batch(key, None, TRIM, both.world.now(), timedelta(hours=24))))

    assert page.records is not None
    data = page.records["data"].to_pylist()[0] or b""
    assert (b"dynamodb" in data) == is_table


def test_the_reader_of_both_kinds_is_pickled_into_the_task():
    access = KinesisAccess("us-east-1")
    reader = ReadersByStream.of(KinesisPages(access=access), {}, DynamoDbPages(access=access))

    arrived = pickle.loads(pickle.dumps(reader))

    assert arrived == reader
    stream = StreamId(MemoryTableStreams().arn, 1_795_000_000)
    assert stream.is_dynamodb
