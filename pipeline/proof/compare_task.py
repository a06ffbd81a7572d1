"""The work of Spark's tasks where tables are compared row by row, as plain functions: some find the bucket of
each row, others compare the rows of one bucket.

Nothing here imports Spark or the catalog. Of a row, only the columns are read that identify its record, and the
payload where its digest is compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.patterns import MOST_NAMED, NO_BUCKET, Comparing, Pattern
from headrace.pipeline.proof.shadow.other_rows import digests, rows_at
from headrace.pipeline.proof.spans import FileCount, ShardSpans
from headrace.pipeline.proof.task import counted_by, counter_of, pieces_of
from headrace.pipeline.proof.task_count import is_sound_row, number_in, shards_of, sort_keys_of

COLUMNS = (
    ("bucket", pa.int32()),
    ("place", pa.int32()),
    ("span", pa.int32()),
    ("side", pa.int32()),
    ("key", pa.string()),
    ("digest", pa.int64()),
)
"""The columns of a row that goes to its bucket. `digest` is null where payloads aren't compared."""
SCHEMA = pa.schema(COLUMNS)


@dataclass(frozen=True, slots=True)
class SideSpec:
    """How the files of one of the compared tables (sides) are read."""

    staging: StagingSpec
    payload: bool = False
    """Whether payloads are compared."""
    other: ConsumerRows | None = None
    """The columns of another consumer's output; None for a table that Headrace has written."""


@dataclass(frozen=True, slots=True)
class SideFile:
    """A data file of one of the compared tables (sides)."""

    side: int
    path: str
    spec: SideSpec


def marked_rows(file: SideFile, scope: Comparing) -> Iterator[pa.RecordBatch]:
    """The rows of the file that are compared, with their buckets. A file that can't be read gives no rows; the
    counting of its rows reports it.
    """
    try:
        for piece in _pieces(file.path, file.spec):
            yield from marked_batches(piece, file.side, scope)
    except (FileNotFoundError, pa.ArrowInvalid):
        return


def _pieces(path: str, spec: SideSpec) -> Iterator[pa.Table]:
    if spec.other is not None:
        yield from rows_at(path, spec.staging, spec.other)
        return
    for piece in pieces_of(path, spec.staging, payload=spec.payload):
        if spec.payload:
            yield piece.append_column("digest", digests(piece["data"].to_pylist()))
        else:
            yield piece


def count_other(
    path: str, staging: StagingSpec, rows: ConsumerRows, spans: Sequence[ShardSpans]
) -> FileCount:
    """How many rows a file of another consumer has in each span. Its payloads aren't read, but their column has
    to exist.
    """
    counter, file = counter_of(spans), LiveFile(path, None, 0, 0)
    try:
        for piece in rows_at(path, staging, rows, payload=False):
            counter.add(piece)
    except FileNotFoundError:
        return FileCount(path, None, 0, error="the file is gone")
    except WrongShape as error:
        return FileCount(path, None, 0, error=str(error))
    return counted_by(counter, file)


def marked_batches(piece: pa.Table, side: int, scope: Comparing) -> Iterator[pa.RecordBatch]:
    """The rows with the number of their side, for the shuffle.

    `piece`: rows with the columns that identify their record, and maybe with a column `digest`.
    """
    places = {
        (shard_spans.stream, shard_spans.epoch, shard_spans.shard_id): i
        for i, shard_spans in enumerate(scope.spans)
    }
    # What no landing can have written is told by what counts the rows, and has no place to be compared at.
    piece = piece.filter(is_sound_row(piece))
    for name, rows in shards_of(piece):
        place = places.get(name)
        if place is not None:
            yield from _marked_shard(rows, place, side, scope)


def _marked_shard(rows: pa.Table, place: int, side: int, scope: Comparing) -> Iterator[pa.RecordBatch]:
    ends, buckets = scope.spans[place].ends, scope.buckets[place]
    keys = sort_keys_of(rows)
    order = pc.sort_indices(keys)
    keys = keys.take(order)
    sorted_keys = keys.to_pylist()
    spans = np.empty(len(sorted_keys), dtype=np.int32)
    start = 0
    while start < len(sorted_keys):
        span = bisect_left(ends, sorted_keys[start])
        stop = len(sorted_keys) if span == len(ends) else _after(sorted_keys, ends[span], start)
        spans[start:stop] = span
        start = stop
    # Rows after the last span are in none.
    of_span = np.array([*buckets, NO_BUCKET], dtype=np.int32)
    bucket = of_span[spans]
    digest: Any = (
        rows["digest"].combine_chunks().take(order)
        if "digest" in rows.column_names
        else pa.nulls(len(keys), pa.int64())
    )
    batch = pa.record_batch(
        [
            pa.array(bucket),
            pa.array(np.full(len(keys), place, dtype=np.int32)),
            pa.array(spans),
            pa.array(np.full(len(keys), side, dtype=np.int32)),
            keys,
            digest,
        ],
        schema=SCHEMA,
    )
    chosen = batch.filter(pa.array(bucket != NO_BUCKET))
    if chosen.num_rows:
        yield chosen


def _after(keys: list[str], end: str, low: int) -> int:
    """The place of the first key after `end`; the keys rise."""
    high = len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] <= end:
            low = middle + 1
        else:
            high = middle
    return low


def patterns_of(rows: pa.Table, sides: int) -> tuple[Pattern, ...]:
    """How often each row of one bucket is on each of the sides, as patterns. All rows of the bucket are in memory."""
    times = [f"times_{side}" for side in range(sides)]
    columns: Mapping[str, Any] = {
        "place": rows["place"],
        "span": rows["span"],
        "key": rows["key"].cast(pa.string()),
        "digest": rows["digest"],
        **{
            name: pc.cast(pc.equal(rows["side"], pa.scalar(side, pa.int32())), pa.int32())
            for side, name in enumerate(times)
        },
    }
    table = pa.table(dict(columns))
    # A key is there once for each side, or more often: no pair of rows has to be made.
    by_key = table.group_by(["place", "span", "key"]).aggregate(
        [*((name, "sum") for name in times), ("digest", "min"), ("digest", "max")]
    )
    # Null where payloads aren't compared.
    differs: Any = pc.fill_null(
        pc.not_equal(by_key["digest_min"], by_key["digest_max"]), pa.scalar(value=False)
    )
    by_key = by_key.append_column("differs", differs).sort_by("key")
    alike = ["place", "span", *(f"{name}_sum" for name in times), "differs"]
    # In one thread, so that the keys stay in order.
    grouped = by_key.group_by(alike, use_threads=False).aggregate([("key", "list"), ("key", "count")])
    first = pc.list_slice(grouped["key_list"], 0, MOST_NAMED)
    alike_rows = grouped.drop_columns(["key_list"]).append_column("first", first)
    return tuple(
        Pattern(
            row["place"],
            row["span"],
            tuple(row[f"{name}_sum"] for name in times),
            row["key_count"],
            tuple(map(number_in, row["first"])),
            row["differs"],
        )
        for row in alike_rows.sort_by([(name, "ascending") for name in alike]).to_pylist()
    )
