"""From the JSON body of a GetRecords answer to Arrow columns.

boto3's response parser takes 15 us a record, two thirds of it for dates. msgspec decodes the body, with base64, in 1 to
2 us a record, and the columns are built from its structs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.aws.pages_check import check_arrivals, check_behind, check_numbers, check_range
from pipeline.core.shard import Child
from pipeline.core.stream import ShardKey

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Record(msgspec.Struct, gc=False):
    """A record can't be part of a reference cycle, so Python's garbage collector needn't look at ten thousand of them a page."""

    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    """Seconds since 1970, with milliseconds as the fraction."""
    Data: bytes
    PartitionKey: str


class _HashKeyRange(msgspec.Struct):
    StartingHashKey: str
    EndingHashKey: str


class _Child(msgspec.Struct):
    ShardId: str
    ParentShards: list[str] = []
    HashKeyRange: _HashKeyRange | None = None

    def as_child(self) -> Child:
        span = self.HashKeyRange
        return Child(
            self.ShardId,
            tuple(self.ParentShards),
            check_range(self.ShardId, span.StartingHashKey, span.EndingHashKey) if span else None,
        )


class _Answer(msgspec.Struct):
    MillisBehindLatest: int = 0
    NextShardIterator: str | None = None
    Records: list[_Record] = []
    ChildShards: list[_Child] | None = None


_DECODER = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The content of one GetRecords answer."""

    records: pa.RecordBatch | None
    rows: int
    bytes: int
    behind: timedelta
    next_iterator: str | None
    """None: the shard is closed and this was its last page."""
    children: tuple[Child, ...]
    first_sequence: int | None
    last_sequence: int | None
    first_arrival: datetime | None
    last_arrival: datetime | None


@lru_cache(maxsize=1)
def record_schema() -> pa.Schema:
    """The lake table's columns, in its order."""
    import pyarrow as pa

    columns: dict[str, pa.DataType] = {
        "stream": pa.string(),
        "stream_epoch": pa.int64(),
        "shard_id": pa.string(),
        "sequence_number": pa.string(),
        "sub_sequence_number": pa.int64(),
        "partition_key": pa.string(),
        "explicit_hash_key": pa.string(),
        "arrival_ts": pa.timestamp("us", tz="UTC"),
        "data": pa.binary(),
        "decode_error": pa.string(),
    }
    return pa.schema(columns)


def decode_answer(body: bytes, key: ShardKey, answered: datetime) -> PageAnswer:
    """Decode and check an answer. Raises msgspec.DecodeError for a body of another form, Absurd for values that can't be right.

    `answered`: the time of the answer by Kinesis's clock.
    """
    answer = _DECODER.decode(body)
    records = answer.Records
    children = tuple(child.as_child() for child in answer.ChildShards or ())
    behind = check_behind(answer.MillisBehindLatest)
    if not records:
        return PageAnswer(None, 0, 0, behind, answer.NextShardIterator, children, None, None, None, None)
    numbers = [r.SequenceNumber for r in records]
    arrivals = [r.ApproximateArrivalTimestamp for r in records]
    data = [r.Data for r in records]
    check_arrivals(arrivals, answered)
    columns = _columns(records, numbers, arrivals, data, key=key)
    first, last = check_numbers(numbers, columns["sequence_number"])
    return PageAnswer(
        records=columns,
        rows=len(records),
        bytes=sum(map(len, data)),
        behind=behind,
        next_iterator=answer.NextShardIterator,
        children=children,
        first_sequence=first,
        last_sequence=last,
        first_arrival=_moment(arrivals[0]),
        last_arrival=_moment(arrivals[-1]),
    )


def _columns(
    records: list[_Record], numbers: list[str], arrivals: list[float], data: list[bytes], *, key: ShardKey
) -> pa.RecordBatch:
    import pyarrow as pa

    schema, count = record_schema(), len(records)
    columns: list[Any] = [
        pa.repeat(key.stream.name, count),
        pa.repeat(pa.scalar(key.stream.epoch, pa.int64()), count),
        pa.repeat(key.shard_id, count),
        pa.array(numbers, pa.string()),
        # Sub-sequence number, explicit hash key and decode error are for user records, which Headrace doesn't unpack yet.
        pa.repeat(pa.scalar(0, pa.int64()), count),
        pa.array([r.PartitionKey for r in records], pa.string()),
        pa.nulls(count, pa.string()),
        # Kinesis gives seconds with milliseconds as a fraction, and a float can't hold them exactly: rounded to milliseconds.
        pa.array([round(each * 1000) * 1000 for each in arrivals], schema.field("arrival_ts").type),
        pa.array(data, pa.binary()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _moment(arrival: float) -> datetime:
    return _EPOCH + timedelta(milliseconds=round(arrival * 1000))
