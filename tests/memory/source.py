"""Streams in memory: shards that split, merge, fill and lose their oldest records, by a clock that a test moves."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import attrgetter

from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, Child, HashRange, NumberRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, arn_of_serialized
from headrace.pipeline.errors import HeadraceError, Unknown
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import StreamFacts

_sequence, _arrival = attrgetter("sequence"), attrgetter("arrival")


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    sequence: int
    arrival: datetime
    data: bytes
    partition_key: str
    users: int = 1
    """How many user records it has. The numbers from `sequence` on are theirs, so that sequence + sub-sequence number tells each
    user record."""
    inner: int | None = None
    """Of an aggregate whose first user record has a payload that is an aggregate itself: the user records of that one."""
    is_broken: bool = False
    """Whether it looks like an aggregate and can't be taken apart."""


@dataclass(slots=True)
class _Stream:
    stream: StreamId
    retention: timedelta
    shards: dict[str, Shard] = field(default_factory=dict)
    closed_at: dict[str, datetime] = field(default_factory=dict)
    records: dict[str, list[MemoryRecord]] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


class MemorySource:
    """The ShardSource port in memory. `fails`: the error that every call raises; None for no error. `failing`: the same for
    single shards.
    """

    def __init__(self, clock: Clock, *, region: str = "us-east-1", account: str = "123456789012") -> None:
        self._clock = clock
        self._region = region
        self._prefix = f"arn:aws:kinesis:{region}:{account}:stream/"
        self._streams: dict[str, _Stream] = {}
        self._next = 10**20
        """The sequence number of the next record."""
        self.fails: HeadraceError | None = None
        self.failing: dict[ShardKey, HeadraceError] = {}

    # --- the port ---------------------------------------------------------------------------------------------

    def aws_now(self) -> datetime | None:
        return self._now()

    def describe(self, name: str) -> StreamFacts:
        found = self._stream(arn_of_serialized(name, partition="aws", region=self._region) or name)
        return StreamFacts(found.stream, found.retention, self._now().replace(microsecond=0))

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        if self.fails is not None:
            raise self.fails
        return tuple(
            found.stream
            for name, found in sorted(self._streams.items())
            if name.startswith(prefix or "") and tags.items() <= found.tags.items()
        )

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        found = self._stream(stream.arn)
        at = None if since is None else since.at
        return tuple(
            shard
            for shard in self._listed(found)
            if at is None or not shard.closed or found.closed_at[shard.shard_id] >= at
        )

    def is_gone(self, key: ShardKey) -> bool:
        found = self._stream(key.stream.arn)
        shard = found.shards.get(key.shard_id)
        return shard is None or not self._is_listed(found, shard, self._now() - found.retention)

    def ended_before(self, key: ShardKey, at: datetime) -> bool:
        return self.children(key) is not None and not self.records(key, Start(at))

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        return frozenset(key for key, at in keys.items() if self._has_news(key, at))

    def arrivals(self, at: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        found: dict[ShardKey, datetime] = {}
        for key, sequence in at.items():
            with suppress(Unknown):
                held = {r.sequence: r.arrival for r in self.records(key, sequence - 1)}
                found |= {key: held[sequence]} if sequence in held else {}
        return found

    # --- what happens to a stream -----------------------------------------------------------------------------

    def create_stream(
        self,
        name: str,
        shards: int = 1,
        *,
        retention: timedelta = timedelta(hours=24),
        has_hash_keys: bool = True,
    ) -> StreamId:
        """`has_hash_keys`: False for a stream such as a DynamoDB table's, whose shards roll over."""
        stream = StreamId(self._prefix + name, int(self._now().timestamp()))
        self._streams[name] = _Stream(stream, retention)
        bounds = [(MAX_HASH_KEY + 1) * i // shards for i in range(shards + 1)]
        for start, end in pairwise(bounds):
            self._open(self._streams[name], (), HashRange(start, end - 1) if has_hash_keys else None)
        return stream

    def tag_stream(self, name: str, tags: Mapping[str, str]) -> None:
        """Replace all tags of the stream."""
        self._streams[name].tags = tags

    def delete_stream(self, name: str) -> None:
        del self._streams[name]

    def put(
        self,
        key: ShardKey,
        data: bytes = b"{}",
        *,
        partition_key: str = "key",
        users: int = 1,
        inner: int | None = None,
        is_broken: bool = False,
    ) -> int:
        """The new record's sequence number. The other arguments: as those of a `MemoryRecord`."""
        found = self._stream(key.stream.arn)
        if found.shards[key.shard_id].closed:
            raise ValueError(f"{key} is closed: a put goes to an open shard")
        number = self._next
        self._next += users
        record = MemoryRecord(number, self._now(), data, partition_key, users, inner, is_broken)
        found.records[key.shard_id].append(record)
        return record.sequence

    def split(self, key: ShardKey) -> tuple[ShardKey, ShardKey]:
        found = self._stream(key.stream.arn)
        whole = _range_of(found.shards[key.shard_id])
        middle = (whole.start + whole.end) // 2
        self._close(found, key.shard_id)
        halves = (HashRange(whole.start, middle), HashRange(middle + 1, whole.end))
        left, right = (self._open(found, (key.shard_id,), half) for half in halves)
        return ShardKey(key.stream, left), ShardKey(key.stream, right)

    def merge(self, one: ShardKey, other: ShardKey) -> ShardKey:
        found = self._stream(one.stream.arn)
        low, high = sorted(_range_of(found.shards[key.shard_id]) for key in (one, other))
        if low.end + 1 != high.start:
            raise ValueError("only neighbours merge")
        self._close(found, one.shard_id)
        self._close(found, other.shard_id)
        return ShardKey(
            one.stream, self._open(found, (one.shard_id, other.shard_id), HashRange(low.start, high.end))
        )

    def roll_over(self, key: ShardKey) -> ShardKey:
        """Another shard goes on after this one, as in the stream of a DynamoDB table."""
        found = self._stream(key.stream.arn)
        self._close(found, key.shard_id)
        return ShardKey(key.stream, self._open(found, (key.shard_id,), None))

    # --- what a reader finds ----------------------------------------------------------------------------------

    def records(self, key: ShardKey, at: Start | int) -> tuple[MemoryRecord, ...]:
        """What can still be read, from a start or after a sequence number."""
        found = self._stream(key.stream.arn)
        if self.is_gone(key):
            raise Unknown(f"{key} isn't there: nothing was read")
        every = found.records[key.shard_id]
        first = bisect_left(every, self._now() - found.retention, key=_arrival)
        if isinstance(at, int):
            first = max(first, bisect_right(every, at, key=_sequence))
        elif at.at is not None:
            first = max(first, bisect_left(every, at.at, key=_arrival))
        return tuple(every[first:])

    def children(self, key: ShardKey) -> tuple[Child, ...] | None:
        """As the last page of a closed shard names them; None while it is open."""
        found = self._stream(key.stream.arn)
        if not found.shards[key.shard_id].closed:
            return None
        return tuple(
            Child(shard.shard_id, shard.parents, shard.hash_range)
            for shard in found.shards.values()
            if key.shard_id in shard.parents
        )

    def hash_range(self, key: ShardKey) -> HashRange | None:
        return self._stream(key.stream.arn).shards[key.shard_id].hash_range

    def lacks_listing(self, key: ShardKey) -> bool:
        """Whether the shard is closed, and no listing shows yet which shards go on after it."""
        return self._stream(key.stream.arn).shards[key.shard_id].closed and self.children(key) is None

    def _has_news(self, key: ShardKey, at: Start | int) -> bool:
        try:
            if key in self.failing:
                raise self.failing[key]
            return bool(self.records(key, at)) or self.children(key) is not None
        except HeadraceError:
            return True

    def _stream(self, name_or_arn: str) -> _Stream:
        if self.fails is not None:
            raise self.fails
        name = name_or_arn.removeprefix(self._prefix)
        if name not in self._streams:
            raise Unknown(f"there is no stream {name_or_arn}, only {sorted(self._streams)}. Nothing was read")
        return self._streams[name]

    def _listed(self, found: _Stream) -> Iterable[Shard]:
        """A closed shard is listed until its last record can't be read any more."""
        horizon = self._now() - found.retention
        return (shard for shard in found.shards.values() if self._is_listed(found, shard, horizon))

    @staticmethod
    def _is_listed(found: _Stream, shard: Shard, horizon: datetime) -> bool:
        return not shard.closed or found.closed_at[shard.shard_id] >= horizon

    def _open(self, found: _Stream, parents: tuple[str, ...], hash_range: HashRange | None) -> str:
        shard_id = f"shardId-{len(found.shards):012d}"
        found.shards[shard_id] = Shard(shard_id, parents, hash_range, numbers=NumberRange(self._next))
        found.records[shard_id] = []
        return shard_id

    def _close(self, found: _Stream, shard_id: str) -> None:
        if found.shards[shard_id].closed:
            raise ValueError(f"{shard_id} is closed already")
        shard = found.shards[shard_id]
        first = self._next if shard.numbers is None else shard.numbers.first
        found.shards[shard_id] = replace(shard, closed=True, numbers=NumberRange(first, self._next))
        found.closed_at[shard_id] = self._now()

    def _now(self) -> datetime:
        return self._clock.now().astimezone(UTC)


def _range_of(shard: Shard) -> HashRange:
    if shard.hash_range is None:
        raise AssertionError(f"{shard.shard_id} was opened without a hash range")
    return shard.hash_range
