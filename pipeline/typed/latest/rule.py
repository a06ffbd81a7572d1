"""Which rows a table of the latest rows keeps, and which leave it. Pure functions on columns.

Of all records of a key the latest one counts: if it is a deletion, the key has no row, and else its row is the
key's row. Of two records the one of the stream's later life is later, and within a life the one with the higher
sort key (`headrace.pipeline.lake.files.sort_key`). All records of one partition key go through shards that follow
each other, and the children of a shard have higher numbers than the shard: so for these records the order is the
stream's own, also through reshards. The row that the table has of a key is the latest of all records before the
wave, and is compared as one more record of the key.

Rows come sorted: by `key`, `epoch` and `sort_key`, and of one record first the wave's row and then the table's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ORDER = ("key", "epoch", "sort_key")
"""The columns by which rows are sorted."""
FRESH = "fresh"
"""The column that tells whether a row is the wave's, and not the table's."""
_FIELDS: Mapping[str, Any] = {
    "key": pa.binary(),
    "epoch": pa.int64(),
    "sort_key": pa.string(),
    FRESH: pa.bool_(),
    "deletes": pa.bool_(),
    "record_key": pa.string(),
    "file": pa.int32(),
    "row": pa.int64(),
}
KEY_ROWS = pa.schema(_FIELDS)
"""`key`: the values of the key's columns, as one. `deletes`: whether the record deletes the key's row. `record_key`: the
record's partition key. `file`, `row`: where the row is."""
LEAVING = pa.schema({"file": pa.int32(), "row": pa.int64(), "why": pa.int8()})


class LeavesBecause(IntEnum):
    """Why a row isn't in the table, or leaves it."""

    REPLACED = 0
    """It was in the table, and a later record of its key has come."""
    SUPERSEDED = 1
    """It is the wave's, and the wave or the table has a later record of its key."""
    DELETION = 2
    """It is the wave's latest record of its key, and deletes the key's row."""
    MIXED = 3
    """The next record of the key has another partition key: nothing tells for sure which one is the later. Such a row is
    named beside its other reason."""


def leaving(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that leave the table or never get into it, of sorted rows with the columns KEY_ROWS."""
    held: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = batch if held is None else _together([held, batch])
        # Whether the last row is its key's latest, only the next batch tells.
        held = rows.slice(rows.num_rows - 1)
        yield from _leaving(rows.slice(0, rows.num_rows - 1), rows.slice(1))
    if held is not None:
        yield from _leaving(held, None)


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _leaving(rows: pa.RecordBatch, following: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
    """`following`: for each row the one that comes after it; None where there is none."""
    if not rows.num_rows:
        return
    fresh = np.asarray(rows[FRESH])
    deletes = np.asarray(rows["deletes"])
    is_older = np.zeros(rows.num_rows, dtype=bool)
    is_mixed = is_older
    if following is not None:
        is_older = _are_equal(rows["key"], following["key"])
        if is_older.any():
            is_mixed = is_older & ~_are_equal(rows["record_key"], following["record_key"])
    yield from _marked(rows, is_older & ~fresh, LeavesBecause.REPLACED)
    yield from _marked(rows, is_older & fresh, LeavesBecause.SUPERSEDED)
    # A row that deletes never enters the table, and nothing remembers it: no wave goes back behind
    # its positions, and redrives and replacements of such tables are refused.
    yield from _marked(rows, ~is_older & fresh & deletes, LeavesBecause.DELETION)
    yield from _marked(rows, is_mixed, LeavesBecause.MIXED)


def _are_equal(values: Any, others: Any) -> Any:
    equality: Any = pc.equal(values, others)
    # Arrow answers null where it compares with null, and two keys without a value are the same key
    # here.
    both_null: Any = pc.and_(pc.is_null(values), pc.is_null(others))
    return np.asarray(pc.if_else(both_null, pa.scalar(value=True), equality.fill_null(False)))


def _marked(rows: pa.RecordBatch, are_meant: Any, why: LeavesBecause) -> Iterator[pa.RecordBatch]:
    if not are_meant.any():
        return
    meant = rows.select(["file", "row"]).filter(pa.array(are_meant))
    yield pa.RecordBatch.from_arrays(
        [meant["file"], meant["row"], pa.array(np.full(meant.num_rows, why))], schema=LEAVING
    )
