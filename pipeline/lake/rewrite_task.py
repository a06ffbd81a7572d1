"""The work of one Spark task of a compaction, as a plain function: read the files of a group, write their rows into one file.

Nothing here imports Spark or the catalog. The new file is read again, and a digest of its rows is compared with one of the rows that were
read: what the two disagree on, the driver doesn't commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.core.rewriting import FileGroup, Rewritten, ShardDigest
from pipeline.errors import WrongShape
from pipeline.lake.day_file import ROW_GROUP, DayFile
from pipeline.lake.stage_place import StagePlace, file_system
from pipeline.lake_ports import StagingSpec

_FIELD_ID = b"PARQUET:field_id"
_SHARD = ("stream", "stream_epoch", "shard_id")
_KEY = (*_SHARD, "sequence_number", "sub_sequence_number", "arrival_ts", "data")
_CHUNK = 18
"""Digits of a sequence number that fit into 64 bits."""
_LONGEST = 144
"""Kinesis's longest sequence number has 129 digits: the next multiple of the chunk."""
_ODD = 0x9E3779B97F4A7C15
"""An odd number near 2^64 divided by the golden ratio: multiplied by it, neighbouring numbers get bits that differ everywhere."""


@dataclass(frozen=True, slots=True)
class RewriteSpec:
    """What a Spark task has to know, beside its group. It can be pickled, and holds no credentials."""

    staging: StagingSpec
    schema: pa.Schema
    """All columns of the table, each with its field id: also those that other engines have added."""


def rewrite_group(
    group: FileGroup, spec: RewriteSpec, *, now: Callable[[], datetime], fresh: Callable[[], str]
) -> Rewritten:
    """All rows of the group are in memory at once, and twice while they are sorted."""
    files, root = file_system(spec.staging)
    place = StagePlace(files, root, spec.staging, spec.schema)
    parts = [_read(place, each.path) for each in group.files]
    before = _added_up([digest(part) for part in parts])
    table = _sorted(pa.concat_tables(parts))
    del parts
    # No shards: they are for landings, where a refused shard takes its files along.
    file = DayFile(place, date.fromisoformat(group.day), fresh())
    try:
        file.write_sorted(table, row_group=-(-len(table) // max(1, table.nbytes // ROW_GROUP)))
        del table
        made = file.finish(now())
        after = digest(_read(place, made.path, only=_KEY))
    except BaseException:
        file.discard()
        raise
    return Rewritten(group, made, before, after)


def _read(place: StagePlace, path: str, only: tuple[str, ...] | None = None) -> pa.Table:
    """The rows of a file with the table's columns, which are found by their ids: a column may have been renamed, and a file has no
    column that was added after it was written."""
    location = f"{place.spec.location.rstrip('/')}/"
    if not path.startswith(location):
        raise WrongShape(f"{path} isn't in the table's folder {location}")
    with (
        place.files.open_input_file(place.path(path[len(location) :])) as source,
        pq.ParquetFile(source) as file,
    ):
        names = {_id_of(column): column.name for column in file.schema_arrow}
        wanted = [column for column in place.schema if only is None or column.name in only]
        found = [names[_id_of(column)] for column in wanted if _id_of(column) in names]
        rows = file.read(columns=found)
    columns: list[Any] = [
        rows[names[_id_of(column)]].cast(column.type)
        if _id_of(column) in names
        else pa.nulls(rows.num_rows, column.type)
        for column in wanted
    ]
    return pa.table(columns, schema=pa.schema(wanted))


def _id_of(column: pa.Field[Any]) -> bytes:
    found: bytes | None = (column.metadata or {}).get(_FIELD_ID)
    if found is None:
        raise WrongShape(f"the column {column.name} has no field id")
    return found


def _sorted(table: pa.Table) -> pa.Table:
    """By shard, and within a shard by the number that the sequence number's text stands for."""
    length = pc.utf8_length(table["sequence_number"])
    keys = table.select([*_SHARD, "sequence_number", "sub_sequence_number"]).append_column("length", length)
    order = [*_SHARD, "length", "sequence_number", "sub_sequence_number"]
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in order]))


def digest(rows: pa.Table) -> tuple[ShardDigest, ...]:
    """For each shard the number of its rows, and the sum of a number for each row. The sum wraps around at 2^64."""
    with_marks = rows.select(_SHARD).append_column("mark", _marks(rows))
    grouped = with_marks.group_by(list(_SHARD)).aggregate([("mark", "count"), ("mark", "sum")])
    return tuple(
        sorted(
            ShardDigest(
                each["stream"] or "",
                each["stream_epoch"] or 0,
                each["shard_id"] or "",
                each["mark_count"],
                each["mark_sum"],
            )
            for each in grouped.to_pylist()
        )
    )


def _marks(rows: pa.Table) -> Any:
    # The stubs of pyarrow's functions know no mixture of chunked arrays and scalars.
    column_of: Any = rows.column
    number: Any = pc.utf8_lpad(_filled(column_of("sequence_number"), ""), _LONGEST, padding="0")
    mark: Any = pa.scalar(0, pa.uint64())
    for start in range(0, _LONGEST, _CHUNK):
        part = pc.utf8_slice_codeunits(number, start, start + _CHUNK)
        mark = _mixed(mark, pc.cast(part, pa.uint64()))
    arrival = pc.cast(column_of("arrival_ts"), pa.int64())
    size = pc.cast(pc.binary_length(column_of("data")), pa.int64())
    for column in (column_of("sub_sequence_number"), arrival, size):
        mark = _mixed(mark, pc.cast(_filled(column, -1), pa.uint64(), safe=False))
    return mark


def _filled(column: Any, value: Any) -> Any:
    return pc.fill_null(column, value)


def _mixed(mark: Any, value: Any) -> Any:
    # Without checks for overflow, pyarrow's product wraps around at 2^64.
    product = pc.multiply(pc.bit_wise_xor(mark, value), pa.scalar(_ODD, pa.uint64()))
    return pc.bit_wise_xor(product, pc.shift_right(product, pa.scalar(29, pa.uint64())))


def _added_up(digests: list[tuple[ShardDigest, ...]]) -> tuple[ShardDigest, ...]:
    found: dict[tuple[str, int, str], tuple[int, int]] = {}
    for each in (one for part in digests for one in part):
        key = each.stream, each.epoch, each.shard_id
        rows, total = found.get(key, (0, 0))
        found[key] = rows + each.rows, (total + each.sum) % 2**64
    return tuple(sorted(ShardDigest(*key, rows, total) for key, (rows, total) in found.items()))
