"""The work of the Spark tasks that bring a wave's rows into a table of the latest rows, as plain functions: some read the
keys of rows, others copy the files that lose rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.files.file_rows import opened, rows_of
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.settings.rules.latest import Deletion
from headrace.pipeline.settings.rules.schema import RECORD_KEY
from headrace.pipeline.typed.latest.rule import KEY_ROWS, LeavesBecause
from headrace.pipeline.typed.latest_plan import KeyPart, Losing
from headrace.pipeline.typed.tasks.duplicates import small
from headrace.pipeline.typed.tasks.exchange import Parts, copied_by_file
from headrace.pipeline.typed.tasks.write import by_shard
from headrace.pipeline.typed.values import Parsed, ShardCount

_BATCH_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class KeySpec:
    """How tasks read the keys of a table of the latest rows. It can be pickled."""

    table: StagingSpec
    schema: pa.Schema
    """All columns of the table, with their field ids."""
    key: tuple[str, ...]
    deletion: Deletion | None

    @property
    def columns(self) -> pa.Schema:
        """The columns that are read of each row."""
        names = dict.fromkeys((*self.key, "stream_epoch", SORT_KEY, RECORD_KEY))
        if self.deletion is not None:
            names[self.deletion.column] = None
        fields: list[Any] = [self.schema.field(name) for name in names]
        return pa.schema(field.with_type(small(field.type)) for field in fields)


def key_rows(parts: Iterable[KeyPart], spec: KeySpec) -> Iterator[pa.RecordBatch]:
    """The keys of all rows of these files, with the columns KEY_ROWS."""
    files, root = file_system(spec.table)
    place = StagePlace(files, root, spec.table, spec.schema)
    for part in parts:
        first = 0
        with opened(place, part.path) as file:
            for group in range(file.num_row_groups):
                rows = rows_of(file, spec.columns, group).combine_chunks()
                yield from _key_rows(rows, part, first, spec).to_batches(max_chunksize=_BATCH_ROWS)
                first += rows.num_rows


def _key_rows(rows: pa.Table, part: KeyPart, first: int, spec: KeySpec) -> pa.Table:
    count = rows.num_rows
    deletes: Any = pa.array(np.zeros(count, dtype=bool))
    # A row of the table doesn't delete any more: it is what its record has left.
    if part.fresh and spec.deletion is not None:
        value = pa.scalar(spec.deletion.value).cast(rows[spec.deletion.column].type)
        deletes = pc.fill_null(pc.equal(rows[spec.deletion.column], value), pa.scalar(value=False))
    # Where nothing deletes, the latest record counts whatever its partition key is.
    asks = spec.deletion is not None and spec.key != (RECORD_KEY,)
    columns: list[Any] = [
        joined_key(rows, spec.key),
        rows["stream_epoch"],
        rows[SORT_KEY],
        pa.array(np.full(count, part.fresh)),
        deletes,
        rows[RECORD_KEY] if asks else pa.nulls(count, pa.string()),
        pa.array(np.full(count, part.number, dtype=np.int32)),
        pa.array(np.arange(first, first + count, dtype=np.int64)),
    ]
    return pa.table(columns, schema=KEY_ROWS)


def joined_key(rows: pa.Table, names: Sequence[str]) -> Any:
    """The values of these columns as one, so that equal values, and no others, make equal bytes. A null is a value of
    its own."""
    parts: list[Any] = []
    for name in names:
        value: Any = _as_bytes(rows[name])
        # With its length before it no value can be taken for the end of one and the beginning of
        # the next: the keys (`a`, `bc`) and (`ab`, `c`) stay two.
        length = pc.binary_length(value).cast(pa.string()).cast(pa.binary())
        whole = pc.binary_join_element_wise(length, value, pa.scalar(b":"), null_handling="emit_null")
        # A value begins with the digits of its length, so that this text stands for null alone.
        parts.append(pc.fill_null(whole, pa.scalar(b"-")))
    return pc.binary_join_element_wise(*parts, pa.scalar(b"")) if len(parts) > 1 else parts[0]


def _as_bytes(values: Any) -> Any:
    kind = values.type
    if pa.types.is_binary(kind):
        return values
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.int32())
    return values.cast(pa.string()).cast(pa.binary())


def _whys_of(one: Losing, first: int, count: int) -> Any:
    """For each of so many rows from this number on why it leaves the file; -1 where it stays."""
    whys: Any = np.full(count, -1, dtype=np.int8)
    are_there = (one.rows >= first) & (one.rows < first + count)
    whys[one.rows[are_there] - first] = one.whys[are_there]
    return whys


def copy_rest(
    losing: Sequence[Losing],
    *,
    spec: StagingSpec,
    schema: pa.Schema,
    streams: Sequence[StreamId],
    mark: ShardKey,
    now: Callable[[], datetime],
) -> Parsed:
    """Copy the rows of these files that stay into new files. The report counts those rows of the wave that don't
    stay.

    `schema`: all columns of the table. `mark`: a shard of the wave, under which the copied rows are staged,
    whatever shards they are of.
    """
    files, root = file_system(spec)
    place = StagePlace(files, root, spec, schema)
    known = {(stream.name, stream.epoch): stream for stream in streams}
    by_path = {one.path: one for one in losing}
    counts: dict[ShardKey, ShardCount] = {}

    def count(left_out: pa.Table, why: LeavesBecause) -> None:
        for batch in left_out.combine_chunks().to_batches():
            for key, rows_of_shard in by_shard(batch, known):
                counts[key] = counts.get(key, ShardCount(key)).plus(_count(key, why, rows_of_shard.num_rows))

    def parts_of(path: str) -> Parts:
        one, first = by_path[path], 0

        def parts(group: pa.Table) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
            nonlocal first
            whys, first = _whys_of(one, first, group.num_rows), first + group.num_rows
            if one.fresh:
                for why in (LeavesBecause.SUPERSEDED, LeavesBecause.DELETION):
                    count(group.filter(pa.array(whys == why)), why)
            for batch in group.filter(pa.array(whys < 0)).combine_chunks().to_batches():
                if batch.num_rows:
                    yield mark, batch

        return parts

    # Whole files are copied and no delete files written: most of what reads typed tables knows
    # plain files only, and pyiceberg writes none.
    copied = copied_by_file(list(by_path), place, parts_of, now)
    return Parsed(copied, (), tuple(counts[key] for key in sorted(counts)))


def _count(key: ShardKey, why: LeavesBecause, rows: int) -> ShardCount:
    return (
        ShardCount(key, superseded=rows)
        if why is LeavesBecause.SUPERSEDED
        else ShardCount(key, deletions=rows)
    )
