"""What a console reads: DynamoDB's tables and Kinesis's lists of shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.pipeline.aws.clients.clients import place_of_client
from headrace.pipeline.console.family import kin_key, label_of
from headrace.pipeline.console.ports import LookedAtTables
from headrace.pipeline.console.values import StreamSeen
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import epoch_of_serialized, name_of_serialized
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.inspect.read import TableNames, TableReader
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.stream_names import name_in

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LIST_EVERY: Final = 60.0
"""Seconds between two lists of a stream's shards."""
_LIST_NEW_AFTER: Final = 10.0
"""Seconds after which a stream is listed again where a lease is new."""
MOST_STREAMS: Final = 20
"""Streams that are listed: Kinesis allows an account few such requests."""


def dynamodb_tables(client: DynamoDBClient, names: TableNames, clock: Clock) -> LookedAtTables:
    reader = TableReader(client, names, clock=clock)
    return LookedAtTables(place_of_client(client), reader.read, lambda: reader.provisioned)


class KinesisStreams:
    """The lists of shards, each kept for a minute."""

    def __init__(self, source: ShardSource, clock: Clock, name: str | None) -> None:
        """`name`: name or ARN of the stream of an application with one stream. Its lease rows don't tell it."""
        self._source = source
        self._clock = clock
        self._name = name
        self._lists: dict[str, tuple[float, StreamSeen]] = {}

    def of(self, leases: Sequence[Lease]) -> tuple[StreamSeen, ...]:
        keys: dict[str, set[str]] = {}
        for lease in leases:
            keys.setdefault(label_of(lease), set()).add(lease.key)
        labels = sorted(keys) or [""]
        seen = [self._stream(label, frozenset(keys.get(label, ()))) for label in labels[:MOST_STREAMS]]
        return (*seen, *(self._unlisted(label) for label in labels[MOST_STREAMS:]))

    def _stream(self, label: str, keys: frozenset[str]) -> StreamSeen:
        if not label and self._name is None:
            return StreamSeen(
                label,
                "",
                trouble="the lease rows of an application with one stream don't tell the stream's name: name it with "
                "--stream to see shards without a lease, times of splits and merges, the retention and what is at risk",
            )
        now = self._clock.monotonic()
        before = self._lists.get(label)
        if before is not None:
            age = now - before[0]
            # A lease that no list has named yet may be that of a child: a reshard is to show before
            # the minute is over.
            is_new = bool(keys - before[1].asked_about) and age >= _LIST_NEW_AFTER
            if age < LIST_EVERY and not is_new:
                return before[1]
        stream = self._asked(label, keys, None if before is None else before[1])
        self._lists[label] = (now, stream)
        return stream

    def _asked(self, label: str, keys: frozenset[str], before: StreamSeen | None) -> StreamSeen:
        name = label or self._name or ""
        short = name_of_serialized(label) if label else name_in(name)
        try:
            facts = self._source.describe(name)
            epoch = epoch_of_serialized(label)
            # Shard ids begin anew in the new life, so that its shards would be taken for those of
            # the old leases.
            if epoch is not None and epoch != facts.stream.epoch:
                return StreamSeen(
                    label,
                    short,
                    trouble=f"stream {short} was deleted and created again: these leases are of its former life",
                )
            shards = self._source.list_shards(facts.stream)
        except HeadraceError as error:
            kept = before or StreamSeen(label, short)
            # Of leases that came since, the kept list says nothing.
            return replace(kept, trouble=f"Kinesis's list of shards is missing or old: {error}")
        return StreamSeen(
            label,
            facts.stream.name,
            shards=shards,
            asked_about=keys | {kin_key(label, shard.shard_id) for shard in shards},
            retention=facts.retention,
            created=facts.stream.created,
            arn=facts.stream.arn,
        )

    def _unlisted(self, label: str) -> StreamSeen:
        return StreamSeen(
            label,
            name_of_serialized(label),
            trouble=f"only {MOST_STREAMS} streams are listed, and this one isn't among them",
        )
