"""The work of the Spark tasks that decode Avro and Protobuf, as a plain function: payloads become the columns of a typed table.

record, data, decode_error, landed  ──►  record, row, reason, data

Payloads are decoded where the rows are written, so that no column passes through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.lake.files.not_null import has_required
from headrace.pipeline.typed.formats.decoder import CantDecode, Decode, Decoder
from headrace.pipeline.typed.formats.value_limit import BYTES_AT_ONCE, TooManyValues, too_many
from headrace.pipeline.typed.tasks.write import IS_LEFT_OUT, own_columns

_ROWS = 1000
"""Rows that are decoded at once. Their bytes and values are limited, too: as Python's values they take many times the payloads' bytes."""
_NO_PAYLOAD = "the record has no payload"


def decoded(
    batches: Iterable[pa.RecordBatch], decoder: Decoder, columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """`columns`: those of the typed table's files. Records that a filter leaves out aren't decoded."""
    decode = decoder.reading()
    own = own_columns(columns)
    row_type, keeps = pa.struct([pa.field(each.name, each.type) for each in own]), has_required(own)
    for batch in batches:
        start = 0
        # Only one part's values of Python are there at a time: none is kept while the next part is decoded.
        for rows, reasons in _parts(batch, decode, decoder.most_values):
            yield _with_rows(batch.slice(start, len(reasons)), rows, reasons, row_type, keeps_payloads=keeps)
            start += len(reasons)
            del rows


_Rows = list[dict[str, Any] | None]
_Reasons = list[str | None]


def _parts(batch: pa.RecordBatch, decode: Decode, most: int) -> Iterator[tuple[_Rows, _Reasons]]:
    """`most`: the most values of a payload."""
    share = 0.0
    rows: _Rows = []
    reasons: _Reasons = []
    is_filtered = IS_LEFT_OUT in batch.schema.names
    left_out = batch[IS_LEFT_OUT].to_pylist() if is_filtered else [False] * batch.num_rows
    errors = batch["decode_error"].to_pylist()
    for payload, error, is_out in zip(_payloads(batch), errors, left_out, strict=True):
        is_judged = is_out or error is not None
        row, reason, its = (None, error, 0.0) if is_judged else _tried(decode, payload, most)
        rows.append(row)
        reasons.append(reason)
        share += its
        if share >= 1 or len(rows) >= _ROWS:
            yield rows, reasons
            share, rows, reasons = 0.0, [], []
    if rows:
        yield rows, reasons


def _payloads(batch: pa.RecordBatch) -> Iterator[bytes | None]:
    at_once = max(1, min(_ROWS, batch.num_rows * BYTES_AT_ONCE // max(1, batch["data"].nbytes)))
    for start in range(0, batch.num_rows, at_once):
        yield from batch["data"].slice(start, at_once).to_pylist()


def _with_rows(
    batch: pa.RecordBatch,
    rows: _Rows,
    reasons: _Reasons,
    row_type: pa.StructType,
    *,
    keeps_payloads: bool,
) -> pa.RecordBatch:
    """`keeps_payloads`: `data` has the payloads of rows without a reason, too; some may get a reason afterwards."""
    array = _array(rows, reasons, row_type)
    aside: Any
    if keeps_payloads:
        aside = pc.coalesce(batch["landed"], batch["data"])
    else:
        told = enumerate(reasons)
        aside = pa.array(
            [None if why is None else _as_landed(batch, place) for place, why in told], pa.binary()
        )
    columns = [batch["record"], array, pa.array(reasons, pa.string()), aside]
    names = ["record", "row", "reason", "data"]
    if IS_LEFT_OUT in batch.schema.names:
        columns.append(batch[IS_LEFT_OUT])
        names.append(IS_LEFT_OUT)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _as_landed(batch: pa.RecordBatch, place: int) -> bytes | None:
    landed: bytes | None = batch["landed"][place].as_py()
    payload: bytes | None = batch["data"][place].as_py()
    return payload if landed is None else landed


def _tried(
    decode: Decode, payload: bytes | None, most: int
) -> tuple[dict[str, Any] | None, str | None, float]:
    if payload is None:
        return None, _NO_PAYLOAD, 0
    try:
        row, share = decode(payload)
    except MemoryError:
        raise
    except TooManyValues:
        reason = too_many(most)
    except CantDecode as error:
        reason = str(error)
    # Whatever a library raises on hostile bytes: the payload goes to quarantine, and the others of the task land.
    except Exception as error:  # noqa: BLE001
        reason = f"the payload doesn't fit the schema: {_words(error)}"
    else:
        return row, None, share
    return None, reason, len(payload) / BYTES_AT_ONCE


def _array(rows: _Rows, reasons: _Reasons, row_type: pa.StructType) -> pa.Array[Any]:
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
