"""The port of Kinesis, for ticks and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId


@dataclass(frozen=True, slots=True)
class StreamFacts:
    stream: StreamId
    retention: timedelta
    asked: datetime
    """The Date of the answer, which is the time by Kinesis's clock."""
    view: str | None = None
    """What the changes of a DynamoDB table's stream have beside the keys, as DynamoDB names it; None of another stream."""


class ShardSource(Protocol):
    def aws_now(self) -> datetime | None:
        """The time by Kinesis's clock, computed from the Date of its newest answer; None before the first answer."""
        ...

    def describe(self, name: str) -> StreamFacts:
        """The present life of a stream. `name`: its name, its ARN or KCL's `account:name:epoch`."""
        ...

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        """The readable streams of this account and region whose names begin with `prefix` and that have all of
        `tags`."""
        ...

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        """The stream's shards from all pages of ListShards. With `since`, those that were open then or later
        (FROM_TIMESTAMP).

        Raises an error where a page can't be read, because half a listing would hide shards.
        """
        ...

    def is_gone(self, key: ShardKey) -> bool:
        """Whether GetShardIterator answers ResourceNotFound for this shard."""
        ...

    def ended_before(self, key: ShardKey, at: datetime) -> bool:
        """Whether a shard that is still listed was closed before this moment and has no record from then on."""
        ...

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        """The shards among these that have a new record or have ended, and those that couldn't be asked.

        `keys`: idle shards, each with the start or the sequence number after which it would be read. At most one record
        of each is fetched.
        """
        ...

    def arrivals(self, at: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        """When the record with the given sequence number of each shard arrived. Records that Kinesis no longer has are
        left out."""
        ...
