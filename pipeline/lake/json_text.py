"""Whether payloads are JSON: one value each, in UTF-8. Spark's from_json reads a value and drops what follows it. Finding that here takes less
CPU than a second look by Spark.
"""

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


def with_json_errors(rows: pa.Table) -> pa.Table:
    """The rows with a column that tells why `data` isn't JSON; null where it is."""
    reasons = [
        why_no_json(payload)
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
