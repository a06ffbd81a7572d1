"""Tells whether payloads are JSON: one JSON value each, in UTF-8."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

NO_TEXT = "the payload isn't text in UTF-8"
NO_OBJECT = "the payload isn't one JSON object that fits the schema"
_FEW = 1000
"""Payloads that are copied out of Arrow at once."""
_whole = msgspec.json.Decoder(msgspec.Raw)
"""Walks through a value, and makes no Python object of its parts."""
_any = msgspec.json.Decoder(float_hook=float)
"""A number beyond those of 64 bits is infinity, as far as only its kind counts."""


def with_json_errors(rows: pa.Table) -> pa.Table:
    """The rows with a column that tells why `data` isn't JSON; null where it is."""
    reasons = [
        why_no_json(payload)
        for start in range(0, rows.num_rows, _FEW)
        for payload in rows["data"].slice(start, _FEW).to_pylist()
    ]
    return rows.append_column("json_error", pa.array(reasons, pa.string()))


def why_no_json(payload: bytes | None) -> str | None:
    if payload is None:
        return NO_OBJECT
    try:
        # msgspec doesn't look into texts that it walks over.
        payload.decode()
        _whole.decode(payload)
    except UnicodeDecodeError:
        return NO_TEXT
    except (msgspec.DecodeError, RecursionError):
        return NO_OBJECT
    return None


def object_in(payload: bytes) -> dict[str, Any] | None:
    """The JSON object that the payload holds; None where the payload is anything else."""
    try:
        payload.decode()
        content = _any.decode(payload)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
