"""The work of one Spark task of a proof, as plain functions: count the rows of data files in the spans of their
shards.

Nothing here imports Spark or the catalog. A file is read in pieces, and only the columns that identify the record
of a row. So a task needs tens of megabytes, however large its files are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.lake.files.stage_place import file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.proof.spans import Doubled, FileCount, Overlap, ShardSpans
from headrace.pipeline.proof.task_count import (
    MOST_NAMED,
    SpanCounter,
    is_of_shard,
    is_sound_row,
    number_in,
    sort_keys_of,
    text_scalar,
)
from headrace.pipeline.settings.rules.schema import ROW_NUMBER

_PIECE = 128 * 1024
"""Rows that are in memory at once."""
_COLUMNS: Mapping[str, Any] = {
    "stream": pa.string(),
    "stream_epoch": pa.int64(),
    "shard_id": pa.string(),
    "sequence_number": pa.string(),
    "sub_sequence_number": pa.int64(),
}


@dataclass(frozen=True, slots=True)
class ProofSpec:
    """What a Spark task of a proof has to know. It can be pickled, and holds no credentials."""

    staging: StagingSpec
    spans: tuple[ShardSpans, ...]


def count_rows(file: LiveFile, spec: ProofSpec) -> FileCount:
    """Count the rows of one file in each span. For a file that can't be read, the count has an error instead."""
    counter = counter_of(spec.spans)
    try:
        for piece in pieces_of(file.path, spec.staging):
            counter.add(piece)
    except FileNotFoundError:
        return FileCount(file.path, file.day, file.rows, error="the file is gone from the storage")
    except pa.ArrowInvalid as error:
        return FileCount(
            file.path, file.day, file.rows, error=f"the file can't be read as Parquet ({_first_line(error)})"
        )
    return counted_by(counter, file)


def counted_by(counter: SpanCounter, file: LiveFile) -> FileCount:
    return FileCount(
        file.path,
        file.day,
        file.rows,
        rows=counter.rows,
        parts=tuple(counter.parts),
        all=counter.all,
        known=counter.known,
        elsewhere=counter.elsewhere,
        strangers=tuple(counter.strangers),
        strange=tuple(sorted(counter.strange.items())),
    )


def counter_of(spans: Sequence[ShardSpans]) -> SpanCounter:
    return SpanCounter(
        {
            (shard_spans.stream, shard_spans.epoch, shard_spans.shard_id): i
            for i, shard_spans in enumerate(spans)
        },
        spans,
    )


def look_at(file: LiveFile, spec: ProofSpec) -> FileCount:
    """Check, without counting, whether a file that was read before is there with the size that the table's
    metadata states.
    """
    # Without reading a row: the size tells whether something has written the file anew.
    files, path = _place(file.path, spec.staging)
    info = files.get_file_info(path)
    error = ""
    if info.type is not fs.FileType.File:
        error = "the file is gone from the storage"
    elif info.size != file.size:
        error = f"the file has {info.size:,} bytes, and the table's metadata states {file.size:,}"
    return FileCount(file.path, file.day, file.rows, rows=file.rows, error=error)


def doubled_rows(overlap: Overlap, spec: ProofSpec) -> Doubled:
    """The rows with these sort keys that are there more than once. All rows with these keys are in memory."""
    shard_spans = spec.spans[overlap.shard]
    keys: list[pa.Array[Any]] = []
    numbers: list[Any] = []
    places: list[pa.Array[Any]] = []
    for number, path in enumerate(overlap.files):
        for piece in pieces_of(path, spec.staging):
            # Sort keys can't be made of a text that is no number.
            sound = piece.filter(is_sound_row(piece))
            of_shard = sound.filter(is_of_shard(sound, shard_spans))
            row_keys = sort_keys_of(of_shard)
            low: Any = pc.greater_equal(row_keys, text_scalar(overlap.low))
            is_inside = pc.and_(low, pc.less_equal(row_keys, text_scalar(overlap.high)))
            inside = row_keys.filter(is_inside)
            keys.append(inside)
            numbers.append(_row_numbers(of_shard).filter(is_inside))
            places.append(pa.repeat(pa.scalar(number, pa.int32()), len(inside)))
    columns: list[Any] = [
        pa.chunked_array(keys, pa.string()),
        pa.chunked_array(numbers, pa.int64()),
        pa.chunked_array(places, pa.int32()),
    ]
    table = pa.table(columns, names=["key", ROW_NUMBER, "place"])
    by_key = table.group_by(["key", ROW_NUMBER]).aggregate(
        [("place", "count"), ("place", "min"), ("place", "max")]
    )
    twice = by_key.filter(pc.greater(by_key["place_count"], pa.scalar(1))).sort_by("key")
    names = [path.rsplit("/", 1)[-1] for path in overlap.files]
    rows = tuple(
        f"{shard_spans.stream}/{shard_spans.shard_id} {number_in(row['key'])} is there {row['place_count']} times, in "
        f"{' and '.join(dict.fromkeys((names[row['place_min']], names[row['place_max']])))}"
        for row in twice.slice(0, MOST_NAMED).to_pylist()
    )
    return Doubled(len(twice), rows)


def _row_numbers(rows: pa.Table) -> Any:
    """The numbers by which the rows of a processor's table differ that belong to one record; 0 in each other table."""
    if ROW_NUMBER in rows.column_names:
        return rows[ROW_NUMBER].combine_chunks()
    return pa.repeat(pa.scalar(0, pa.int64()), len(rows))


# --- reading ------------------------------------------------------------------------------------------------


def pieces_of(path: str, spec: StagingSpec, *, payload: bool = False) -> Iterator[pa.Table]:
    """The rows in pieces, with the columns of `_COLUMNS`, `row_number` where the spec has it, and `data` where `payload`
    is true. The columns are found by their ids: a column may have been renamed."""
    files, inside = _place(path, spec)
    ids = {name: str(number).encode() for name, number in spec.field_ids}
    kinds = {**_COLUMNS, "data": pa.binary()} if payload else dict(_COLUMNS)
    if ROW_NUMBER in ids:
        kinds[ROW_NUMBER] = pa.int64()
    with files.open_input_file(inside) as source, pq.ParquetFile(source) as file:
        names = {
            (column.metadata or {}).get(b"PARQUET:field_id"): column.name for column in file.schema_arrow
        }
        # A file that was written before a column was added lacks it: its rows have null there.
        present = {name: names[ids[name]] for name in kinds if ids.get(name) in names}
        for batch in file.iter_batches(_PIECE, columns=list(present.values())):
            columns = [
                batch.column(present[name]).cast(kind) if name in present else pa.nulls(len(batch), kind)
                for name, kind in kinds.items()
            ]
            yield pa.table(columns, names=list(kinds))


def _place(path: str, spec: StagingSpec) -> tuple[fs.FileSystem, str]:
    return file_system(spec)[0], path.partition("://")[2] or path


def _first_line(error: Exception) -> str:
    # Only the first line: pyarrow's messages may quote values of the rows.
    return str(error).partition("\n")[0][:200]
