"""Decodes the body of a GetRecords answer of DynamoDB Streams to Arrow columns.

    the answer ──> one JSON document for each record, as DynamoDB wrote it ──> `data`, byte for byte
                                              └──> its number, its time and its key ──> the other columns

`partition_key` is the item's key as JSON, its attributes in the order of their names: {"id":{"S":"4711"}}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from headrace.pipeline.aws.reading.cbor_records import Columns
from headrace.pipeline.aws.reading.pages_check import Absurd, check_number
from headrace.pipeline.aws.reading.pages_decode import PageAnswer, page_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.encoding.cbor import Body

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

SHORTEST: Final = 21
"""Digits of a sequence number in a request, by DynamoDB's API."""


class _Change(msgspec.Struct, gc=False):
    SequenceNumber: str
    ApproximateCreationDateTime: float
    Keys: dict[str, dict[str, str]]


class _Record(msgspec.Struct, gc=False):
    dynamodb: _Change


class _Answer(msgspec.Struct):
    Records: list[msgspec.Raw] = []
    NextShardIterator: str | None = None


_ANSWER = msgspec.json.Decoder(_Answer)
_RECORD = msgspec.json.Decoder(_Record)


def decode_table_answer(body: Body, key: ShardKey, answered: datetime) -> PageAnswer:
    """Decode and check an answer. Raises msgspec.DecodeError for a body of another form, Absurd for values that can't be
    right."""
    answer = _ANSWER.decode(body)
    changes = [_RECORD.decode(raw).dynamodb for raw in answer.Records]
    columns = _columns(changes, [bytes(raw) for raw in answer.Records]) if changes else None
    return page_of(columns, answer.NextShardIterator, key, answered)


def in_request(sequence: int) -> str:
    """A sequence number as a text in the form that DynamoDB's API takes."""
    return f"{sequence:0{SHORTEST}d}"


def _columns(changes: Sequence[_Change], documents: Sequence[bytes]) -> Columns:
    import pyarrow as pa

    return Columns(
        pa.array([_plain(change.SequenceNumber) for change in changes], pa.string()),
        pa.array([_key_text(change.Keys) for change in changes], pa.string()),
        pa.array(documents, pa.binary_view()),
        np.array([change.ApproximateCreationDateTime for change in changes], np.float64),
    )


def _plain(number: str) -> str:
    """Without zeros at its front, so that rows and positions have the same text."""
    check_number(number, "a sequence number")
    return str(int(number))


def _key_text(keys: dict[str, dict[str, str]]) -> str:
    if not keys:
        raise Absurd("a record has no key")
    # In a fixed order, so that one item has the same text in each record: typed tables take the
    # partition key for the item's key.
    ordered: dict[str, Any] = {name: keys[name] for name in sorted(keys)}
    return msgspec.json.encode(ordered).decode()
