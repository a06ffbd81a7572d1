"""Decodes the body of a GetRecords answer to Arrow columns.

    JSON ──> msgspec ──────────────────────┐
    CBOR ──> in bulk (cbor_records) ───────┼──> columns ──> checks ──> a RecordBatch
         └─> one by one, in another form ──┘

boto3's response parser takes 15 us a record, two thirds of it for dates. msgspec decodes JSON, with base64,
in 0.5 us for 200 B and 1.5 us for 1 KB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from headrace.pipeline.aws.reading.cbor_records import Columns, records_in_bulk
from headrace.pipeline.aws.reading.pages_check import (
    Absurd,
    check_arrivals,
    check_behind,
    check_number,
    check_numbers,
    check_range,
)
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.encoding.cbor import LIST, MAP, Body, CborReader, NotCborError, Tagged
from headrace.pipeline.encoding.plain_arrow import bytes_of, of_numpy, same_text
from headrace.pipeline.ports.pages import RecordPage

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TAG = 1
# 2013-11-14. The RFC of CBOR wants seconds where AWS writes milliseconds: an endpoint that keeps to the RFC
# would move every arrival to January 1970.
_KINESIS_BEGAN = 1_384_387_200.0


class _Record(msgspec.Struct, gc=False):
    """A record can't be part of a reference cycle, so Python's garbage collector needn't look at ten thousand
    of them a page."""

    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    """When each record arrived, in seconds since 1970, with milliseconds as the fraction."""
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


class _Event(msgspec.Struct):
    """What SubscribeToShard sends."""

    MillisBehindLatest: int = 0
    ContinuationSequenceNumber: str | None = None
    Records: list[_Record] = []
    ChildShards: list[_Child] | None = None


_DECODER = msgspec.json.Decoder(_Answer)
_EVENT_DECODER = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The content of one GetRecords answer."""

    records: pa.RecordBatch | None
    rows: int
    bytes: int
    behind: timedelta
    next_iterator: str | None
    """The next iterator; None where the shard is closed and this was its last page."""
    children: tuple[Child, ...]
    first_sequence: int | None
    last_sequence: int | None
    first_arrival: datetime | None
    last_arrival: datetime | None
    earliest: datetime | None = None
    """The earliest arrival, which needn't be the first record's."""

    def page(self, answered: datetime, *, ended: bool, looked: datetime | None = None) -> RecordPage:
        """The page of records that the reader returns for this answer. `ended`: whether the shard ends with it."""
        return RecordPage(
            records=self.records,
            rows=self.rows,
            bytes=self.bytes,
            answered=answered,
            behind=self.behind,
            last_sequence=self.last_sequence,
            first_arrival=self.first_arrival,
            last_arrival=self.last_arrival,
            # Child shards come with the shard's last page.
            children=self.children if ended else None,
            iterator=self.next_iterator,
            looked=looked,
        )


@lru_cache(maxsize=1)
def record_schema() -> pa.Schema:
    """The columns of a page, in the order of the lake table's. A page has views of its payloads, whose bytes may
    still be in the body of an answer.
    """
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
        "data": pa.binary_view(),
        "decode_error": pa.string(),
    }
    return pa.schema(columns)


def decode_answer(body: Body, key: ShardKey, answered: datetime) -> PageAnswer:
    """Decode and check an answer in JSON. Raises msgspec.DecodeError for a body of another form, Absurd for
    values that can't be right.

    `answered`: the time of the answer by Kinesis's clock.
    """
    answer = _DECODER.decode(body)
    return _checked(answer, _columns_of(answer.Records), key, answered)


def decode_event(payload: Body | memoryview, key: ShardKey, answered: datetime) -> PageAnswer:
    """Decode and check an event of a subscription, whose continuation number takes the place of the next iterator.

    The number becomes the place from which the next subscription goes on, so it must not be before the records.
    """
    event = _EVENT_DECODER.decode(payload)
    number, children = event.ContinuationSequenceNumber, event.ChildShards or []
    answer = _Answer(event.MillisBehindLatest, number, event.Records, event.ChildShards)
    page = _checked(answer, _columns_of(event.Records), key, answered)
    if number is not None:
        check_number(number, "the continuation number")
        # A continuation before the last record would read records again that have landed.
        if page.last_sequence is not None and int(number) < page.last_sequence:
            raise Absurd("the continuation number is before the event's last record")
    if any(key.shard_id not in child.ParentShards for child in children):
        raise Absurd("a child shard doesn't name this shard as its parent")
    return page


def page_of(
    columns: Columns | None, next_iterator: str | None, key: ShardKey, answered: datetime
) -> PageAnswer:
    """Check the records of an answer that says neither how far behind it is nor which child shards there are."""
    return _checked(_Answer(0, next_iterator), columns, key, answered)


def since_moment(page: PageAnswer, moment: datetime) -> PageAnswer:
    """The page without its first records that arrived before this moment."""
    if page.records is None:
        return page
    arrivals: list[Any] = page.records["arrival_ts"].to_pylist()
    # The first such record and all after it: arrivals needn't grow, so that leaving out each
    # earlier one would make holes behind the start.
    first = next((n for n, arrival in enumerate(arrivals) if arrival >= moment), None)
    if first is None:
        return replace(page, records=None, rows=0, bytes=0, last_sequence=None, last_arrival=None)
    records = page.records.slice(first)
    return replace(
        page,
        records=records,
        rows=len(records),
        bytes=bytes_of(records["data"]),
        first_sequence=int(records["sequence_number"][0].as_py()),
        first_arrival=arrivals[first],
        last_arrival=arrivals[-1],
    )


def decode_cbor_answer(body: Body, key: ShardKey, answered: datetime) -> PageAnswer:
    """Decode and check an answer in CBOR. Raises NotCborError, msgspec.DecodeError or Absurd."""
    reader, plain, columns = CborReader(body), {}, None
    for _ in reader.items(MAP):
        name = reader.key()
        if name != "Records":
            plain[name] = reader.value(1)
        elif bulk := records_in_bulk(body, reader.at):
            columns, reader.at = bulk
        else:
            plain[name] = [_with_seconds(reader.value(2)) for _ in reader.items(LIST)]
    if reader.at != len(body):
        raise NotCborError(f"{len(body) - reader.at} bytes follow the answer")
    answer = msgspec.convert(plain, _Answer, builtin_types=(bytes,))
    columns = columns or _columns_of(answer.Records)
    if columns is not None and columns.arrivals.min() < _KINESIS_BEGAN:
        raise Absurd(
            "a record arrived before Kinesis existed, as if moments were in seconds and not in milliseconds"
        )
    return _checked(answer, columns, key, answered)


def _with_seconds(record: Any) -> Any:
    """The record with its arrival as in JSON. In AWS's CBOR, moments are milliseconds."""
    match record:
        case {"ApproximateArrivalTimestamp": Tagged(tag, int() | float() as millis)} if tag == _EPOCH_TAG:
            return {**record, "ApproximateArrivalTimestamp": millis / 1000}
        case _:
            return record


def _columns_of(records: list[_Record]) -> Columns | None:
    import pyarrow as pa

    if not records:
        return None
    return Columns(
        pa.array([r.SequenceNumber for r in records], pa.string()),
        pa.array([r.PartitionKey for r in records], pa.string()),
        pa.array([r.Data for r in records], pa.binary_view()),
        np.array([r.ApproximateArrivalTimestamp for r in records], np.float64),
    )


def _checked(answer: _Answer, columns: Columns | None, key: ShardKey, answered: datetime) -> PageAnswer:
    children = tuple(child.as_child() for child in answer.ChildShards or ())
    behind = check_behind(answer.MillisBehindLatest)
    if columns is None:
        return PageAnswer(None, 0, 0, behind, answer.NextShardIterator, children, None, None, None, None)
    check_arrivals(columns.arrivals, answered)
    first, last = check_numbers(columns.numbers)
    # Kinesis gives milliseconds, and a float of seconds can't hold them exactly: rounded to milliseconds.
    millis = np.rint(columns.arrivals * 1000).astype(np.int64)
    return PageAnswer(
        records=_batch(columns, millis, key),
        rows=len(columns.data),
        bytes=bytes_of(columns.data),
        behind=behind,
        next_iterator=answer.NextShardIterator,
        children=children,
        first_sequence=first,
        last_sequence=last,
        first_arrival=_moment(millis[0]),
        last_arrival=_moment(millis[-1]),
        earliest=_moment(millis.min()),
    )


def _batch(columns: Columns, millis: Any, key: ShardKey) -> pa.RecordBatch:
    import pyarrow as pa

    schema, count = record_schema(), len(millis)
    arrays: list[Any] = [
        same_text(key.stream.name, count),
        of_numpy(np.full(count, key.stream.epoch, np.int64), pa.int64()),
        same_text(key.shard_id, count),
        columns.numbers,
        # Sub-sequence number, explicit hash key and decode error are for user records of aggregates, which
        # the stage takes apart.
        of_numpy(np.zeros(count, np.int64), pa.int64()),
        columns.keys,
        pa.nulls(count, pa.string()),
        of_numpy(millis * 1000, schema.field("arrival_ts").type),
        columns.data,
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def size_of(column: Any) -> int:
    """How many bytes the values of a column of text or bytes take together."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return int(offsets[column.offset + len(column)] - offsets[column.offset])


def _moment(millis: Any) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(millis))
