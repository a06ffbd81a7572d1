"""The work of the Spark tasks that decode Avro and Protobuf, as a plain function: payloads become the columns of a typed table.

record, data, decode_error, landed  ──►  record, row, reason, data

Payloads are decoded where the rows are written, so that no column passes through the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from pipeline.lake.parse_write import own_columns

_ROWS = 1000
_BYTES = 1024 * 1024
"""Rows and bytes of payloads that are decoded at once: as Python's values they take many times as much."""
_NO_PAYLOAD = "the record has no payload"

Decode = Callable[[bytes], dict[str, Any]]


class CantDecode(Exception):
    """The reason, in words for the quarantine table."""


class Decoder(Protocol):
    """How payloads of one format are decoded. It can be pickled."""

    def columns(self) -> list[tuple[str, Any]]:
        """The columns with their types, as Spark writes them in JSON. Raises BadSetting."""

    def reading(self) -> Decode:
        """A function that raises CantDecode, or any error of the format's library."""


def decoded(
    batches: Iterable[pa.RecordBatch], decoder: Decoder, columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """`columns`: those of the typed table's files."""
    decode = decoder.reading()
    row_type = pa.struct([pa.field(each.name, each.type) for each in own_columns(columns)])
    for batch in batches:
        for few in _few(batch):
            yield _decoded(few, decode, row_type)


def _few(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, min(_ROWS, batch.num_rows * _BYTES // max(1, batch["data"].nbytes)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _decoded(batch: pa.RecordBatch, decode: Decode, row_type: pa.StructType) -> pa.RecordBatch:
    payloads: list[bytes | None] = batch["data"].to_pylist()
    reasons: list[str | None] = batch["decode_error"].to_pylist()
    rows: list[dict[str, Any] | None] = [None] * len(payloads)
    for place, payload in enumerate(payloads):
        if reasons[place] is None:
            rows[place], reasons[place] = _tried(decode, payload)
    array = _array(rows, reasons, row_type)
    landed: list[bytes | None] = batch["landed"].to_pylist()
    aside = [
        None if reason is None else payload if was is None else was
        for reason, payload, was in zip(reasons, payloads, landed, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [batch["record"], array, pa.array(reasons, pa.string()), pa.array(aside, pa.binary())],
        names=["record", "row", "reason", "data"],
    )


def _tried(decode: Decode, payload: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    if payload is None:
        return None, _NO_PAYLOAD
    try:
        return decode(payload), None
    except MemoryError:
        raise
    except CantDecode as error:
        return None, str(error)
    # Whatever a library raises on hostile bytes: the payload goes to quarantine, and the others of the task land.
    except Exception as error:  # noqa: BLE001
        return None, f"the payload doesn't fit the schema: {_words(error)}"


def _array(
    rows: list[dict[str, Any] | None], reasons: list[str | None], row_type: pa.StructType
) -> pa.Array[Any]:
    """The rows as Arrow's. A value that a column can't hold gives its row a reason."""
    try:
        return pa.array(rows, row_type)
    except _UNFIT:
        return pa.concat_arrays(list(_one_by_one(rows, reasons, row_type)))


_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)


def _one_by_one(
    rows: Sequence[dict[str, Any] | None], reasons: list[str | None], row_type: pa.StructType
) -> Iterator[pa.Array[Any]]:
    for place, row in enumerate(rows):
        try:
            yield pa.array([row], row_type)
        except _UNFIT as error:
            reasons[place] = f"a value doesn't fit its column: {_words(error)}"
            yield pa.nulls(1, row_type)


def _words(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
