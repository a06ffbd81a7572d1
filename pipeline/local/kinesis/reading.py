"""GetShardIterator and GetRecords."""

from __future__ import annotations

import math
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import orjson

from headrace.pipeline.local.errors import AwsError, invalid_argument, resource_not_found
from headrace.pipeline.local.faults import Call
from headrace.pipeline.local.fields import (
    SEQUENCE_NUMBER,
    SHARD_ID,
    Request,
    choice,
    maybe_instant,
    maybe_number,
    maybe_text,
    text_field,
)
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.shard import LocalShard
from headrace.pipeline.local.kinesis.stream import Stream
from headrace.pipeline.local.sealed import NotSealedError, seal, unseal

# AWS: an iterator expires 5 minutes after it was returned.
ITERATOR_MS = 300_000
MOST_RECORDS = 10_000
_EMPTY = frozenset({"empty"})
_BY_NUMBER = frozenset({"AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"})
TYPES = _BY_NUMBER | {"AT_TIMESTAMP", "LATEST", "TRIM_HORIZON"}


@dataclass(frozen=True, slots=True)
class Iterator:
    """The content of a shard iterator. It has the stream's id, so that it is refused by a recreated stream of
    the same name."""

    stream_id: str
    stream_name: str
    shard: int
    position: int
    # Milliseconds since 1970.
    created: int

    def sealed(self) -> str:
        """Write the iterator as opaque text."""
        return seal("iterator", self.stream_id, self.stream_name, self.shard, self.position, self.created)

    @classmethod
    def unsealed(cls, token: str) -> Iterator:
        """Read an iterator from opaque text."""
        try:
            stream_id, name, shard, position, created = unseal("iterator", token)
        except NotSealedError as error:
            raise invalid_argument("Invalid ShardIterator.") from error
        return cls(stream_id, name, int(shard), int(position), int(created))


def get_shard_iterator(region: Region, request: Request) -> dict[str, Any]:
    """Give an iterator at a place in a shard."""
    now = region.clock()
    kind = choice(request, "ShardIteratorType", TYPES)
    shard_id = text_field(request, "ShardId", SHARD_ID)
    stream = region.made_stream(request, now)
    shard = stream.shard(shard_id)
    region.limits.iterator(stream.name, shard_id, now)
    trim(stream, shard, now)
    position = start_of(request, kind, shard, now)
    return {"ShardIterator": _iterator(stream, shard, position, now)}


def get_records(region: Region, request: Request) -> dict[str, Any]:
    """Give the records at an iterator, and the iterator after them."""
    now = region.clock()
    limit = maybe_number(request, "Limit", least=1, most=MOST_RECORDS) or MOST_RECORDS
    iterator = Iterator.unsealed(text_field(request, "ShardIterator"))
    stream = _stream_of(region, request, iterator, now)
    if int(now * 1000) - iterator.created > ITERATOR_MS:
        raise _expired(iterator, now)
    shard = stream.shard_by_index(iterator.shard, f"shardId-{iterator.shard:012d}")
    region.limits.before_read(stream.name, shard.shard_id, now)
    trim(stream, shard, now)
    position = max(iterator.position, shard.log.first)
    if region.faults and position < shard.log.end and _shall_be_empty(region, stream, shard):
        return _page(stream, shard, b"[]", position, now=now)
    records, position, size = shard.log.page(position, limit)
    region.limits.after_read(stream.name, shard.shard_id, now, size=size)
    return _page(stream, shard, records, position, now=now)


def _page(stream: Stream, shard: LocalShard, records: bytes, position: int, *, now: float) -> dict[str, Any]:
    log = shard.log
    behind = max(0, int(now * 1000) - log.arrival(position)) if position < log.end else 0
    answer: dict[str, Any] = {"Records": orjson.Fragment(records), "MillisBehindLatest": behind}
    if position >= log.end and shard.closed_at is not None:
        # AWS: the last page of a closed shard names its children, and has no next iterator.
        answer["ChildShards"] = [child.described_as_child() for child in shard.children]
    else:
        answer["NextShardIterator"] = _iterator(stream, shard, position, now)
    return answer


def start_of(request: Request, kind: str, shard: LocalShard, now: float) -> int:
    """Give the position at which a reading begins."""
    given = maybe_text(request, "StartingSequenceNumber", SEQUENCE_NUMBER)
    if (given is not None) != (kind in _BY_NUMBER):
        raise invalid_argument(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or (2) "
            f"another type and no StartingSequenceNumber. Request specified {kind} and "
            f"{'no' if given is None else 'also a'} StartingSequenceNumber."
        )
    if given is not None:
        position = shard.position_at(int(given), now, after=kind == "AFTER_SEQUENCE_NUMBER")
        if position is None:
            problem = (
                f"used in GetShardIterator on shard {shard.shard_id} is invalid: it did not come from there."
            )
            raise invalid_argument(f"StartingSequenceNumber {given} {problem}")
        return position
    if kind == "AT_TIMESTAMP":
        # Rounded up: a record of the millisecond in which the instant lies may have arrived before it.
        return shard.log.position_from(math.ceil(_past_instant(request, now) * 1000))
    return shard.log.end if kind == "LATEST" else shard.log.first


def _past_instant(request: Request, now: float) -> float:
    instant = maybe_instant(request, "Timestamp")
    if instant is None:
        raise invalid_argument("Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP.")
    if instant > now:
        raise invalid_argument(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "
            f"timestampInMillis: {instant * 1000:.0f}, currentTimestampInMillis: {now * 1000:.0f}"
        )
    return instant


def _iterator(stream: Stream, shard: LocalShard, position: int, now: float) -> str:
    return Iterator(stream.stream_id, stream.name, shard.index, position, int(now * 1000)).sealed()


def trim(stream: Stream, shard: LocalShard, now: float) -> None:
    """Drop the records that have left the retention."""
    # At each read, as tests move the clock in leaps, and no timer would see them.
    shard.log.trim(int((now - stream.retention_hours * 3600) * 1000))


def _stream_of(region: Region, request: Request, iterator: Iterator, now: float) -> Stream:
    stream = region.find_by_id(iterator.stream_id, now)
    if stream is None:
        raise resource_not_found(f"Stream {iterator.stream_name} of the ShardIterator not found.")
    if maybe_text(request, "StreamARN") is not None and region.named(request) != stream.name:
        raise invalid_argument("StreamARN does not match the stream of the ShardIterator.")
    return stream


def _shall_be_empty(region: Region, stream: Stream, shard: LocalShard) -> bool:
    call = Call(service="kinesis", operation="GetRecords", resource=stream.name, shard=shard.shard_id)
    return region.faults.draw(_EMPTY, call) is not None


def _expired(iterator: Iterator, now: float) -> AwsError:
    created = formatdate(iterator.created / 1000, usegmt=True)
    return AwsError(
        "ExpiredIteratorException",
        f"Iterator expired. The iterator was created at time {created} while right now it is "
        f"{formatdate(now, usegmt=True)} which is further in the future than the tolerated delay of "
        f"{ITERATOR_MS} milliseconds.",
    )
