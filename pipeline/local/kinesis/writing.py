"""PutRecord and PutRecords."""

from __future__ import annotations

import binascii
from hashlib import md5
from typing import Any, NamedTuple

import orjson

from headrace.pipeline.local.errors import invalid_argument, too_fast, unreadable
from headrace.pipeline.local.faults import Call
from headrace.pipeline.local.fields import (
    HASH_KEY,
    SEQUENCE_NUMBER,
    Request,
    broken,
    maybe_text,
    sequence_of,
    text_field,
)
from headrace.pipeline.local.kinesis.limits import exceeded
from headrace.pipeline.local.kinesis.modes import split_when_full
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.sequence import second_of
from headrace.pipeline.local.kinesis.shard import MAX_HASH, LocalShard
from headrace.pipeline.local.kinesis.stream import ACCOUNT, Stream

MOST_RECORDS = 500
MOST_BYTES = 10 * 1024 * 1024
_KEY_LETTERS = 256
_PARTIAL = frozenset({"partial"})
# Sequence numbers of today's layout lie between these two.
_SEQUENCE_FLOOR, _SEQUENCE_CEILING = 1 << 185, 3 << 184


class _Entry(NamedTuple):
    """One checked record of a request. It is a tuple because a frozen dataclass takes three times as long to make."""

    # As base64, in which requests bring it and answers give it: no record is decoded and encoded again.
    data: bytes
    key: str
    # Data and partition key together, which every limit counts.
    size: int
    hash_key: int


def put_record(region: Region, request: Request) -> dict[str, Any]:
    """Take one record, or refuse it."""
    now = region.clock()
    stream = region.made_stream(request, now)
    _check_ordering(request, stream, now)
    entry = _entry(request, stream)
    shard = _shard_for(region, stream, entry)
    if not region.limits.write(stream.name, shard.shard_id, now, size=entry.size):
        split_when_full(stream, shard, now)
        raise too_fast(exceeded(stream.name, shard.shard_id))
    return {**_append(stream, shard, entry, now), "EncryptionType": stream.encryption}


def put_records(region: Region, request: Request) -> dict[str, Any]:
    """Take up to 500 records. A record above its shard's write limit is refused alone; any other mistake
    refuses the request."""
    now = region.clock()
    given = sequence_of(request, "Records", most=MOST_RECORDS)
    stream = region.made_stream(request, now)
    entries = [_entry(record, stream) for record in given]
    if sum(entry.size for entry in entries) > MOST_BYTES:
        raise invalid_argument(f"Records size exceeds {MOST_BYTES} bytes")
    answers = [_put(region, stream, entry, now) for entry in entries]
    failed = sum("ErrorCode" in answer for answer in answers)
    return {"FailedRecordCount": failed, "Records": answers, "EncryptionType": stream.encryption}


def _put(region: Region, stream: Stream, entry: _Entry, now: float) -> dict[str, str]:
    shard = _shard_for(region, stream, entry)
    refused = region.limits.enforced and not region.limits.write(
        stream.name, shard.shard_id, now, size=entry.size
    )
    if refused:
        split_when_full(stream, shard, now)
    elif region.faults:
        call = Call(service="kinesis", operation="PutRecords", resource=stream.name, shard=shard.shard_id)
        refused = region.faults.draw(_PARTIAL, call) is not None
    if refused:
        message = exceeded(stream.name, shard.shard_id)
        return {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": message}
    return _append(stream, shard, entry, now)


def _shard_for(region: Region, stream: Stream, entry: _Entry) -> LocalShard:
    return stream.route(region.dice.randrange(MAX_HASH) if stream.ignores_keys else entry.hash_key)


def _append(stream: Stream, shard: LocalShard, entry: _Entry, now: float) -> dict[str, str]:
    key = orjson.dumps(entry.key)
    sequence = shard.append(
        entry.data,
        key,
        size=entry.size,
        now=int(now * 1000),
        encryption=stream.encryption if stream.key_id else None,
    )
    return {"SequenceNumber": sequence, "ShardId": shard.shard_id}


def _entry(record: Any, stream: Stream) -> _Entry:
    if not isinstance(record, dict):
        raise unreadable("Records: Expected a structure")
    key = text_field(record, "PartitionKey")
    if not 1 <= len(key) <= _KEY_LETTERS:
        raise broken("partitionKey", key, "Member must have length between 1 and 256")
    raw_key = key.encode()
    explicit = maybe_text(record, "ExplicitHashKey", HASH_KEY)
    hash_key = (
        int.from_bytes(md5(raw_key, usedforsecurity=False).digest()) if explicit is None else int(explicit)
    )
    if hash_key > MAX_HASH:
        allowed = "ExplicitHashKey must be in the range: [0, 2^128-1]."
        raise invalid_argument(f"Invalid ExplicitHashKey. {allowed} Specified value was {hash_key}")
    data, size = _blob(record)
    size += len(raw_key)
    if size > stream.max_record_kib * 1024:
        limit = f"data and partition key take {size} bytes, more than {stream.max_record_kib} KiB"
        raise broken(
            "data", f"{size} bytes", f"Member must have length less than or equal to the limit: {limit}"
        )
    return _Entry(data, key, size, hash_key)


def _blob(record: Request) -> tuple[bytes, int]:
    data = text_field(record, "Data")
    try:
        return data.encode("ascii"), len(binascii.a2b_base64(data, strict_mode=True))
    # ValueError comes from letters beyond ASCII.
    except (binascii.Error, ValueError) as error:
        raise unreadable(f"Data can not be converted to a Blob: {error}") from error


def _check_ordering(request: Request, stream: Stream, now: float) -> None:
    given = maybe_text(request, "SequenceNumberForOrdering", SEQUENCE_NUMBER)
    if given is None:
        return
    sequence = int(given)
    if not _SEQUENCE_FLOOR < sequence < _SEQUENCE_CEILING or second_of(sequence) > now + 1:
        problem = f"used in PutRecord on stream {stream.name} under account {ACCOUNT} is invalid."
        raise invalid_argument(f"ExclusiveMinimumSequenceNumber {given} {problem}")
