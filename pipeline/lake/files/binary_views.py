"""Payloads as Arrow views: while a task reads, its rows point into the bodies of Kinesis's answers, and no
payload is copied before it is written.

Arrow can write and cast views, but it can neither filter them nor `take` from them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_COLUMN = "data"


def with_views(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of Kinesis records with views of their payloads: the payloads themselves aren't copied."""
    return _cast(rows, pa.binary_view())


def without_views(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of Kinesis records with copies of their payloads instead of views."""
    return _cast(rows, pa.binary())


def filtered(rows: pa.RecordBatch, mask: Any) -> pa.RecordBatch:
    """The rows for which the column `mask` is true. Views of payloads stay views."""
    place = rows.schema.get_field_index(_COLUMN)
    if place < 0 or rows.schema.field(place).type != pa.binary_view():
        return rows.filter(mask)
    return with_views(without_views(rows).filter(mask))


def _cast(rows: pa.RecordBatch, kind: pa.DataType) -> pa.RecordBatch:
    place = rows.schema.get_field_index(_COLUMN)
    if rows.schema.field(place).type == kind:
        return rows
    return rows.set_column(place, _COLUMN, rows.column(place).cast(kind))
