"""The work of one Spark task of a compaction, as a plain function: read the files of a group, write their rows
into one file.

Nothing here imports Spark or the catalog. The new file is read again, and a digest of its rows is compared with
one of the rows that were read. If the two differ, the driver doesn't commit the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.lake.files.day_file import ROW_GROUP, DayFile
from headrace.pipeline.lake.files.file_rows import opened, rows_of
from headrace.pipeline.lake.files.row_marks import marks
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.upkeep.rewrite_plan import FileGroup, Rewritten, ShardDigest

_SHARD = ("stream", "stream_epoch", "shard_id")
_KEY = (*_SHARD, "sequence_number", "sub_sequence_number", "arrival_ts", "data")


@dataclass(frozen=True, slots=True)
class RewriteSpec:
    """What a Spark task has to know to rewrite a group. It can be pickled, and holds no credentials."""

    staging: StagingSpec
    schema: pa.Schema
    """All columns of the table, each with its field id: also those that other engines have added."""


def rewrite_group(
    group: FileGroup, spec: RewriteSpec, *, now: Callable[[], datetime], fresh: Callable[[], str]
) -> Rewritten:
    """Write the rows of a group of files anew, sorted, into one file. All rows of the group are in memory at once,
    and twice while they are sorted."""
    files, root = file_system(spec.staging)
    place = StagePlace(files, root, spec.staging, spec.schema)
    tables = [_read(place, source.path) for source in group.files]
    # Of the rows as they were read, before anything sorts or joins them: what goes wrong afterwards shows.
    before = _added_up([digest(rows) for rows in tables])
    table = _sorted(pa.concat_tables(tables))
    del tables
    # No shards: they are for landings, where a refused shard takes its files along.
    file = DayFile(place, date.fromisoformat(group.day), fresh())
    try:
        file.write_sorted(table, row_group=-(-len(table) // max(1, table.nbytes // ROW_GROUP)))
        del table
        staged = file.finish(now())
        # Read back from the file that the table would get, and not taken from memory.
        after = digest(_read(place, staged.path, only=_KEY))
    except BaseException:
        file.discard()
        raise
    return Rewritten(group, staged, before, after)


def _read(place: StagePlace, path: str, only: tuple[str, ...] | None = None) -> pa.Table:
    """The rows of a file with the table's columns."""
    schema = pa.schema(column for column in place.schema if only is None or column.name in only)
    with opened(place, path) as file:
        return rows_of(file, schema)


def _sorted(table: pa.Table) -> pa.Table:
    """By shard, and within a shard by the number that the sequence number's text stands for."""
    length = pc.utf8_length(table["sequence_number"])
    keys = table.select([*_SHARD, "sequence_number", "sub_sequence_number"]).append_column("length", length)
    order = [*_SHARD, "length", "sequence_number", "sub_sequence_number"]
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in order]))


def digest(rows: pa.Table) -> tuple[ShardDigest, ...]:
    """For each shard the number of its rows, and the sum of a hash of each row. The sum wraps around at 2^64."""
    with_marks = rows.select(_SHARD).append_column("mark", _marks(rows))
    grouped = with_marks.group_by(list(_SHARD)).aggregate([("mark", "count"), ("mark", "sum")])
    return tuple(
        sorted(
            ShardDigest(
                row["stream"] or "",
                row["stream_epoch"] or 0,
                row["shard_id"] or "",
                row["mark_count"],
                row["mark_sum"],
            )
            for row in grouped.to_pylist()
        )
    )


def _marks(rows: pa.Table) -> Any:
    # The stubs of pyarrow's functions know no chunked arrays of an unknown type.
    column_of: Any = rows.column
    arrival = pc.cast(column_of("arrival_ts"), pa.int64())
    columns = [column_of("sub_sequence_number"), arrival]
    # A typed table has no payloads, or has a column of another type by this name.
    is_payload = (pa.types.is_binary, pa.types.is_large_binary)
    if "data" in rows.column_names and any(
        is_of_kind(rows.schema.field("data").type) for is_of_kind in is_payload
    ):
        columns.append(pc.cast(pc.binary_length(column_of("data")), pa.int64()))
    return marks(column_of("sequence_number"), *columns)


def _added_up(digests: list[tuple[ShardDigest, ...]]) -> tuple[ShardDigest, ...]:
    by_shard: dict[tuple[str, int, str], tuple[int, int]] = {}
    for shard_digest in (of_shard for of_file in digests for of_shard in of_file):
        key = shard_digest.stream, shard_digest.epoch, shard_digest.shard_id
        rows, total = by_shard.get(key, (0, 0))
        by_shard[key] = rows + shard_digest.rows, (total + shard_digest.sum) % 2**64
    return tuple(sorted(ShardDigest(*key, rows, total) for key, (rows, total) in by_shard.items()))
