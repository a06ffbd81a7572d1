"""Payloads of Avro and Protobuf that the format's library decodes one by one, each to a row of Python values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.pipeline.typed.formats.decoder import Payloads, Read, Reasons
from headrace.pipeline.typed.formats.value_limit import BYTES_AT_ONCE, TooManyValues, too_many

_ROWS = 1000
"""Rows that are decoded at once. Their bytes and values are limited, too: as Python's values they take many times the
payloads' bytes."""

Decode = Callable[[bytes], tuple[dict[str, Any], float]]
"""From a payload to its row, and to the payload's share of what may be decoded at once. It raises CantDecode,
TooManyValues, or any error of the format's library."""
_STREAM = re.compile(r"<_io\.BytesIO object at 0x[0-9a-f]+>")
_Rows = list[dict[str, Any] | None]


class CantDecode(Exception):
    """A payload can't be decoded. The argument is the reason, in words for the quarantine table."""


def row_by_row(decode: Decode, most: int, columns: Sequence[pa.Field[Any]]) -> Read:
    """A function that reads payloads one by one with the library. `most`: the most values that a payload may make."""
    row_type = pa.struct([pa.field(column.name, column.type) for column in columns])

    def read(payloads: Payloads) -> Iterator[tuple[pa.Array[Any], Reasons]]:
        for rows, reasons in _parts(payloads, decode, most):
            yield _array(rows, reasons, row_type), reasons

    return read


def _parts(payloads: Payloads, decode: Decode, most: int) -> Iterator[tuple[_Rows, Reasons]]:
    share = 0.0
    rows: _Rows = []
    reasons: Reasons = []
    for payload in payloads:
        row, reason, taken = (None, None, 0.0) if payload is None else _tried(decode, payload, most)
        rows.append(row)
        reasons.append(reason)
        share += taken
        if share >= 1 or len(rows) >= _ROWS:
            yield rows, reasons
            share, rows, reasons = 0.0, [], []
    if rows:
        yield rows, reasons


def _tried(decode: Decode, payload: bytes, most: int) -> tuple[dict[str, Any] | None, str | None, float]:
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


def _array(rows: _Rows, reasons: Reasons, row_type: pa.StructType) -> pa.Array[Any]:
    """The rows as Arrow's. A value that a column can't hold gives its row a reason."""
    try:
        return pa.array(rows, row_type)
    except _UNFIT:
        # Arrow names no row in its error. One value that doesn't fit would send a thousand rows to
        # quarantine.
        return pa.concat_arrays(list(_one_by_one(rows, reasons, row_type)))


_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)


def _one_by_one(
    rows: Sequence[dict[str, Any] | None], reasons: Reasons, row_type: pa.StructType
) -> Iterator[pa.Array[Any]]:
    for place, row in enumerate(rows):
        try:
            yield pa.array([row], row_type)
        except _UNFIT as error:
            reasons[place] = f"a value doesn't fit its column: {_words(error)}"
            yield pa.nulls(1, row_type)


def _words(error: Exception) -> str:
    # Without the address of what fastavro reads from: the same reason has the same text.
    text = _STREAM.sub("the payload", str(error).strip().partition("\n")[0])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
