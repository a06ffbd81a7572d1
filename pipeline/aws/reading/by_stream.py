"""Streams that are read by AWS roles of their own, and streams of DynamoDB tables, behind the same ports as all
others: each call goes to the part that reads its stream.

    SourcesByStream      for ticks and runs
    ReadersByStream      for Spark's workers
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, name_of_serialized
from headrace.pipeline.ports.pages import Pages, RecordPage
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.stream_names import is_dynamodb, name_in

_T = TypeVar("_T")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class PartsByStream(Generic[_T]):
    """For each stream the part that reads it, such as a source that uses the stream's own role."""

    others: _T
    """The part for each stream that has none of its own."""
    named: Mapping[str, _T] = field(default_factory=dict)
    """Name of a stream -> its part."""
    tables: _T | None = None
    """The part for the streams of DynamoDB tables. None where there are none."""

    def of(self, text: str) -> _T:
        """The part that reads a stream. `text`: the stream's name, its ARN or KCL's `account:name:epoch`."""
        name = name_in(name_of_serialized(text))
        if self.tables is not None and is_dynamodb(name):
            return self.tables
        return self.named.get(name, self.others)

    def all(self) -> tuple[_T, ...]:
        return (self.others, *self.named.values(), *(() if self.tables is None else (self.tables,)))

    def sorted_out(self, keys: Mapping[ShardKey, _V]) -> list[tuple[_T, dict[ShardKey, _V]]]:
        """Each part, with those of the shards that it reads."""
        by_part: dict[int, dict[ShardKey, _V]] = defaultdict(dict)
        parts = {id(part): part for part in self.all()}
        for key, value in keys.items():
            # By the part and not by its name, so that all streams of one part are asked side by
            # side in one call.
            by_part[id(self.of(key.stream.name))][key] = value
        return [(parts[name], shards) for name, shards in by_part.items()]


class SourcesByStream:
    def __init__(
        self, others: ShardSource, named: Mapping[str, ShardSource], tables: ShardSource | None = None
    ) -> None:
        self._sources = PartsByStream(others, named, tables)

    def aws_now(self) -> datetime | None:
        return max(
            (moment for source in self._sources.all() if (moment := source.aws_now()) is not None),
            default=None,
        )

    def describe(self, name: str) -> StreamFacts:
        return self._sources.of(name).describe(name)

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        # Discovery looks at one account, that of `aws.kinesis`. Streams of tables are named by the settings.
        return self._sources.others.find_streams(prefix, tags)

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        return self._sources.of(stream.name).list_shards(stream, since)

    def is_gone(self, key: ShardKey) -> bool:
        return self._sources.of(key.stream.name).is_gone(key)

    def ended_before(self, key: ShardKey, at: datetime) -> bool:
        return self._sources.of(key.stream.name).ended_before(key, at)

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        parts = self._sources.sorted_out(keys)
        return frozenset().union(*(source.has_news(shards) for source, shards in parts))

    def arrivals(self, at: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        arrivals: dict[ShardKey, datetime] = {}
        for source, shards in self._sources.sorted_out(at):
            arrivals |= source.arrivals(shards)
        return arrivals


@dataclass(frozen=True, slots=True)
class ReadersByStream:
    """The reader of Spark's tasks: each stream is read by its own part. It is pickled into the task, with the identities
    of that moment."""

    parts: PartsByStream[Pages]

    @classmethod
    def of(cls, others: Pages, named: Mapping[str, Pages], tables: Pages | None) -> Pages:
        """The reader of all streams. Where no stream has a part of its own, it is simply `others`."""
        return cls(PartsByStream(others, named, tables)) if named or tables is not None else others

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        return self.parts.of(batch.key.stream.name).pages(batch)
