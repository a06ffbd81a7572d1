"""The work of the Spark tasks that leave out duplicates, as plain functions: one reads the key columns of the typed
table, the other marks the rows of a wave. In between Spark brings all rows with the same key together.

Rows that are to be marked come sorted by their key columns (`key_0`, `key_1`, ...), then those of the table before
those of the wave (`fresh`), then by `arrival`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.lake.files.file_rows import id_of, names_in, opened, rows_of
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.typed.duplicates_plan import KeptOfKey
from headrace.pipeline.typed.tasks.write import IS_DUPLICATE, IS_LEFT_OUT

ARRIVAL, FRESH = "arrival", "fresh"
_MARKED = ("record", "row", "reason", "data")
_MICROSECOND = timedelta(microseconds=1)
_BATCH_ROWS = 50_000


def key_names(count: int) -> tuple[str, ...]:
    return tuple(f"key_{n}" for n in range(count))


def key_columns(columns: pa.Schema, by: Sequence[str]) -> pa.Schema:
    """The columns of a typed table's files that `earlier_rows` reads: those of `by`, and the arrival."""
    return pa.schema(columns.field(name) for name in (*by, "arrival_ts"))


def small_columns(columns: pa.Schema) -> pa.Schema:
    return pa.schema(pa.field(column.name, small(column.type)) for column in columns)


def small(kind: Any) -> Any:
    """This Arrow type with 32-bit offsets, the only ones that Spark takes from a task. The files of a typed table
    have 64-bit ones.
    """
    types = pa.types
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_large_list(kind):
        return pa.list_(small(kind.value_type))
    if types.is_map(kind):
        return pa.map_(small(kind.key_type), small(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(part.name, small(part.type)) for part in kind])
    return kind


def earlier_rows(
    files: Iterable[str], spec: StagingSpec, columns: pa.Schema, *, since: datetime, until: datetime
) -> Iterator[pa.RecordBatch]:
    """The key columns and arrivals of those rows in these files that arrived between two moments. `columns`: the
    key columns and then `arrival_ts`, with the field ids of the typed table. Rows with a null in one of them are
    left out.
    """
    system, root = file_system(spec)
    place = StagePlace(system, root, spec, columns)
    names = [*key_names(len(columns) - 1), ARRIVAL]
    for path in files:
        with opened(place, path) as file:
            for group in range(file.num_row_groups):
                # By the footer alone: most row groups of other days or hours needn't be read.
                if not _may_have(file, group, columns.field("arrival_ts"), since, until):
                    continue
                rows = rows_of(file, columns, group)
                arrival = rows["arrival_ts"]
                is_near: Any = pc.and_kleene(
                    pc.greater_equal(arrival, pa.scalar(since)), pc.less_equal(arrival, pa.scalar(until))
                )
                near: Any = rows.filter(is_near).drop_null()
                columns_near = [column.cast(small(column.type)) for column in near.columns]
                yield from pa.table(columns_near, names=names).to_batches(max_chunksize=_BATCH_ROWS)


def _may_have(file: Any, group: int, column: pa.Field[Any], since: datetime, until: datetime) -> bool:
    """By the statistics of the row group, where it has some."""
    name, metadata = names_in(file).get(id_of(column)), file.metadata.row_group(group)
    chunks = [metadata.column(n) for n in range(metadata.num_columns)]
    bounds = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == name), None)
    return bounds is None or not bounds.has_min_max or (bounds.min <= until and bounds.max >= since)


def marked(batches: Iterable[pa.RecordBatch], *, keys: int, within: timedelta) -> Iterator[pa.RecordBatch]:
    """The rows of the wave, with a further column that tells whether the row is a duplicate. `keys`: the number of key
    columns."""
    names, kept = key_names(keys), KeptOfKey(within // _MICROSECOND)
    before: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        goes_on = _goes_on(batch, names, before)
        fresh = batch[FRESH].to_numpy(zero_copy_only=False)
        arrivals: Any = batch[ARRIVAL].cast(pa.int64()).fill_null(0).to_numpy()
        duplicate = np.zeros(batch.num_rows, dtype=bool)
        starts = np.flatnonzero(~goes_on)
        if goes_on[0]:
            starts = np.concatenate([[0], starts])
        ends = np.append(starts[1:], batch.num_rows)
        # A key with one row is settled, but at the ends of a batch: its other rows may be in the batch before or after.
        worth = ends - starts > 1
        worth[[0, -1]] = True
        for start, end in zip(starts[worth], ends[worth], strict=True):
            if not goes_on[start]:
                kept = KeptOfKey(kept.within)
            _mark(kept, start, fresh[start:end], arrivals[start:end], duplicate)
        # One row is enough: the next batch goes on with its key or begins another one.
        before = batch.slice(batch.num_rows - 1)
        handed = [*_MARKED, *([IS_LEFT_OUT] if IS_LEFT_OUT in batch.schema.names else [])]
        marked_rows = pa.RecordBatch.from_arrays(
            [*(batch[name] for name in handed), pa.array(duplicate)], names=[*handed, IS_DUPLICATE]
        )
        yield marked_rows.filter(batch[FRESH])


def _mark(kept: KeptOfKey, start: int, fresh: Any, arrivals: Any, duplicate: Any) -> None:
    # Rows that the table has come first, because they were there first whenever they arrived.
    first = int(np.argmax(fresh)) if fresh.any() else len(fresh)
    kept.there.extend(arrivals[:first].tolist())
    for place, arrival in enumerate(arrivals[first:].tolist(), start + first):
        duplicate[place] = not kept.offer(arrival)


def _goes_on(batch: pa.RecordBatch, names: Sequence[str], before: pa.RecordBatch | None) -> Any:
    """Whether a row has the key of the row before it. A row with a null in its key never has."""
    same: Any = np.ones(batch.num_rows, dtype=bool)
    for name in names:
        column = batch[name]
        first = pa.nulls(1, column.type) if before is None else before[name]
        all_of_it = pa.chunked_array([first, column]).combine_chunks()
        found: Any = pc.equal(all_of_it[1:], all_of_it[:-1])
        same &= found.fill_null(False).to_numpy(zero_copy_only=False)
    return same
