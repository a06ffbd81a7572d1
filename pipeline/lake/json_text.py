"""Whether payloads are JSON: one value each, in UTF-8. Spark's from_json reads a value and drops what follows it. Finding that here takes less
CPU than a second look by Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

NO_TEXT = "the payload isn't text in UTF-8"
NO_OBJECT = "the payload isn't one JSON object that fits the schema"
_FEW = 1000
"""Payloads that are copied out of Arrow at once."""
_whole = msgspec.json.Decoder(msgspec.Raw)
"""Walks through a value, and makes no Python object of its parts."""


WhyNot = Callable[[Mapping[str, Any]], str | None]
"""Why a payload doesn't fit the columns."""


def with_json_errors(rows: pa.Table, why_not: WhyNot | None = None) -> pa.Table:
    """The rows with a column that tells why `data` isn't JSON, or why `why_not` refuses it; null where nothing is wrong."""
    reasons = [
        why_no_json(payload) if why_not is None else _why_refused(payload, why_not)
        for start in range(0, rows.num_rows, _FEW)
        for payload in rows["data"].slice(start, _FEW).to_pylist()
    ]
    return rows.append_column("json_error", pa.array(reasons, pa.string()))


def why_no_json(payload: Any) -> str | None:
    if payload is None:
        return NO_OBJECT
    try:
        # Spark keeps bytes that aren't UTF-8 in a string, and a Python worker that gets such a string fails.
        payload.decode()
        _whole.decode(payload)
    except UnicodeDecodeError:
        return NO_TEXT
    except (msgspec.DecodeError, RecursionError):
        return NO_OBJECT
    return None


def _why_refused(payload: Any, why_not: WhyNot) -> str | None:
    content = object_in(payload)
    return why_no_json(payload) or NO_OBJECT if content is None else why_not(content)


def object_in(payload: Any) -> dict[str, Any] | None:
    """The JSON object that the payload is. None where it is none."""
    try:
        payload.decode()
        content = msgspec.json.decode(payload)
    except (AttributeError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
