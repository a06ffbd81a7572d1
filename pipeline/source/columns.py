"""The columns of the data frames that the Spark format gives, for Spark and for Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from headrace.pipeline.lake.files.sort_key import SORT_KEY

GENERATION = "shard_generation"
"""The column by which children sort after their parents. The lake table doesn't have it."""

_TIME = pa.timestamp("us", tz="UTC")
_RECORD_TYPES: Mapping[str, tuple[str, Any]] = {
    "stream": ("string", pa.string()),
    "stream_epoch": ("bigint", pa.int64()),
    "shard_id": ("string", pa.string()),
    "sequence_number": ("string", pa.string()),
    "sub_sequence_number": ("bigint", pa.int64()),
    "partition_key": ("string", pa.string()),
    "explicit_hash_key": ("string", pa.string()),
    "arrival_ts": ("timestamp", _TIME),
    "data": ("binary", pa.binary()),
    "decode_error": ("string", pa.string()),
    SORT_KEY: ("string", pa.string()),
}
"""The lake table's columns, in its order."""
_LOSS_TYPES: Mapping[str, tuple[str, Any]] = {
    "stream": ("string", pa.string()),
    "stream_epoch": ("bigint", pa.int64()),
    "shard_id": ("string", pa.string()),
    "kind": ("string", pa.string()),
    "since": ("timestamp", _TIME),
    "until": ("timestamp", _TIME),
    "after_sequence": ("string", pa.string()),
    "upto_sequence": ("string", pa.string()),
    "why": ("string", pa.string()),
}
_MOST_BYTES = 16 * 1024 * 1024
"""Bytes of a batch that goes to Spark at once, as far as single rows allow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Records of a range that a data frame lacks or may lack, and why."""

    stream: str | None
    stream_epoch: int | None
    shard_id: str | None
    """None: of a whole stream, or of the table's history."""
    kind: str
    """`retention`, `no-ledger`, or the kind of the range in the lineage table."""
    since: datetime | None = None
    """None: it isn't known when these records arrived."""
    until: datetime | None = None
    after_sequence: str | None = None
    upto_sequence: str | None = None
    why: str


RECORD_KINDS = {name: kind for name, (kind, _) in _RECORD_TYPES.items()} | {GENERATION: "int"}
"""Column -> its type in Spark."""
LOSS_KINDS = {name: kind for name, (kind, _) in _LOSS_TYPES.items()}

LAKE_TYPES: Mapping[str, Any] = {name: kind for name, (_, kind) in _RECORD_TYPES.items()}
"""Column of the lake table -> its type in Arrow."""
RECORDS = pa.schema([*LAKE_TYPES.items(), (GENERATION, pa.int32())])
LOSSES = pa.schema([(name, kind) for name, (_, kind) in _LOSS_TYPES.items()])


def in_form(rows: Any, generation: Any) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of `RECORDS`, in batches of a size that Spark can take. `rows`: a batch or a
    table. `generation`: a column with the number of reshards before each row's shard. A column that the rows lack
    is null.
    """
    names = rows.schema.names
    columns = [
        rows.column(names.index(name)) if name in names else pa.nulls(rows.num_rows, kind)
        for name, kind in LAKE_TYPES.items()
    ]
    table = pa.Table.from_arrays([*columns, generation], schema=RECORDS)
    at_once = max(1, table.num_rows * _MOST_BYTES // max(1, table.nbytes))
    for start in range(0, table.num_rows, at_once):
        yield from table.slice(start, at_once).combine_chunks().to_batches()


def losses_in_form(losses: Iterable[Loss]) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_pylist([asdict(loss) for loss in losses], schema=LOSSES).to_batches()
