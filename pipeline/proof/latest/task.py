"""The work of the Spark tasks that read the keys of rows for the proof of a table of the latest rows, as a plain
function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.sort_texts import RowShard, end_of, row_shard
from headrace.pipeline.lake.files.file_rows import opened, rows_of
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.proof.latest.rule import ROWS, RowKind
from headrace.pipeline.typed.latest.task import joined_key
from headrace.pipeline.typed.tasks.duplicates import small

_SHARD = ("stream", "stream_epoch", "shard_id")
_REMOVED = r'"eventName"\s*:\s*"REMOVE"'
"""What the change of a DynamoDB table says that deletes an item. Texts of the item have a backslash before each quotation
mark, and its attributes have an object as their value: so nothing else in a change looks like it."""
_BATCH_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class RowsOf:
    """How the rows of one table are read for the comparison by keys. It can be pickled."""

    kind: RowKind
    spec: StagingSpec
    schema: pa.Schema
    """All columns of the table, with their field ids."""
    key: tuple[str, ...]
    upto: tuple[tuple[RowShard, str], ...] | None = None
    """Only rows of these shards, below these sort keys; None: all rows."""
    tells_deletions: bool = False
    """Whether payloads are changes of a DynamoDB table, which tell what they delete."""


@dataclass(frozen=True, slots=True)
class RowsPart:
    of: RowsOf
    path: str


def end_texts(positions: Positions) -> tuple[tuple[RowShard, str], ...]:
    return tuple((row_shard(key), end_of(position)) for key, position in positions.shards.items())


def rows_by_key(parts: Iterable[RowsPart]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        of = part.of
        files, root = file_system(of.spec)
        place = StagePlace(files, root, of.spec, of.schema)
        names = dict.fromkeys((*of.key, *_SHARD, SORT_KEY))
        if of.tells_deletions:
            names["data"] = None
        fields: list[Any] = [of.schema.field(name) for name in names]
        columns = pa.schema(field.with_type(small(field.type)) for field in fields)
        with opened(place, part.path) as file:
            for group in range(file.num_row_groups):
                rows = _within(rows_of(file, columns, group), of)
                yield from _told(rows, of).to_batches(max_chunksize=_BATCH_ROWS)


def _within(rows: pa.Table, of: RowsOf) -> pa.Table:
    if of.upto is None:
        return rows
    upto = dict(of.upto)
    parts = []
    for shard in rows.select(_SHARD).group_by(list(_SHARD), use_threads=False).aggregate([]).to_pylist():
        high = upto.get((shard["stream"], shard["stream_epoch"], shard["shard_id"]))
        if high is None:
            continue
        is_meant: Any = pc.less(rows[SORT_KEY], pa.scalar(high))
        for name in _SHARD:
            is_meant = pc.and_kleene(is_meant, pc.equal(rows[name], pa.scalar(shard[name])))
        parts.append(rows.filter(is_meant))
    return pa.concat_tables(parts) if parts else rows.slice(0, 0)


def _told(rows: pa.Table, of: RowsOf) -> pa.Table:
    rows = rows.combine_chunks()
    deletes: Any = pa.array(np.zeros(rows.num_rows, dtype=bool))
    if of.tells_deletions:
        matches: Any = pc.match_substring_regex  # its stub doesn't know that it takes bytes, too
        deletes = pc.fill_null(matches(rows["data"], _REMOVED), pa.scalar(value=False))
    columns: list[Any] = [
        joined_key(rows, of.key),
        rows["stream_epoch"],
        rows[SORT_KEY],
        pa.array(np.full(rows.num_rows, of.kind, dtype=np.int8)),
        deletes,
    ]
    return pa.table(columns, schema=ROWS)
