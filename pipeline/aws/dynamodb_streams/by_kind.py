"""One source for all streams of an application: each stream goes to Kinesis or to DynamoDB Streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from headrace.pipeline.aws.dynamodb_streams.source import DynamoDbSource
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, name_of_serialized
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.stream_names import is_dynamodb


class SourceByKind:
    def __init__(self, kinesis: ShardSource, connect: Callable[[], Any]) -> None:
        """`connect`: makes the client of DynamoDB Streams, for the first stream of a table that is asked for."""
        self._kinesis = kinesis
        self._connect = connect

    @cached_property
    def _dynamodb(self) -> ShardSource:
        return DynamoDbSource(self._connect())

    @property
    def _used(self) -> tuple[ShardSource, ...]:
        return (self._kinesis, self._dynamodb) if "_dynamodb" in self.__dict__ else (self._kinesis,)

    def aws_now(self) -> datetime | None:
        return max((now for source in self._used if (now := source.aws_now()) is not None), default=None)

    def describe(self, name: str) -> StreamFacts:
        is_table = is_dynamodb(name_of_serialized(name))
        return (self._dynamodb if is_table else self._kinesis).describe(name)

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        """Streams of Kinesis: those of tables are named by the settings."""
        return self._kinesis.find_streams(prefix, tags)

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        return self._of(stream).list_shards(stream, since)

    def is_gone(self, key: ShardKey) -> bool:
        return self._of(key.stream).is_gone(key)

    def ended_before(self, key: ShardKey, at: datetime) -> bool:
        return self._of(key.stream).ended_before(key, at)

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        of_tables = {key: place for key, place in keys.items() if key.stream.is_dynamodb}
        others = {key: place for key, place in keys.items() if not key.stream.is_dynamodb}
        news = self._kinesis.has_news(others)
        return news | self._dynamodb.has_news(of_tables) if of_tables else news

    def arrivals(self, at: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        of_tables = {key: number for key, number in at.items() if key.stream.is_dynamodb}
        others = {key: number for key, number in at.items() if not key.stream.is_dynamodb}
        moments = dict(self._kinesis.arrivals(others))
        return moments | dict(self._dynamodb.arrivals(of_tables)) if of_tables else moments

    def _of(self, stream: StreamId) -> ShardSource:
        return self._dynamodb if stream.is_dynamodb else self._kinesis
