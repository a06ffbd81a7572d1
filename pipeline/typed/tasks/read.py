"""The work of the Spark tasks that read the lake table for a typed table, as plain functions: one finds out which
rows are there, another reads them.

Both choose rows by the same function, from the same files, which never change. So the number of rows that the
first one counted confirms that the second one has read all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.pipeline.core.shards.sort_texts import RowShard, record_in, row_shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl.deaggregate import MAGIC
from headrace.pipeline.lake.files.file_rows import id_of, names_in, opened, rows_of, with_id
from headrace.pipeline.lake.files.sort_key import sort_keys
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.typed.formats.inflate import Inflation, inflated
from headrace.pipeline.typed.json.text import with_json_errors
from headrace.pipeline.typed.values import AsideRows, Bound, FilePart, Piece, ReadUnit, Survey, SurveyOrder

_TYPES: Mapping[str, pa.DataType] = {
    "stream": pa.string(),
    "stream_epoch": pa.int64(),
    "shard_id": pa.string(),
    "sequence_number": pa.string(),
    "sub_sequence_number": pa.int64(),
    "arrival_ts": pa.timestamp("us", tz="UTC"),
    "decode_error": pa.string(),
    "partition_key": pa.string(),
    "explicit_hash_key": pa.string(),
    "data": pa.binary(),
    "reason": pa.string(),
}
"""The columns of the lake table that are read. Only a quarantine table has a reason."""
_LOOKED_AT = (
    "stream",
    "stream_epoch",
    "shard_id",
    "sequence_number",
    "sub_sequence_number",
    "arrival_ts",
    "decode_error",
    "reason",
)
_RECORD = ("stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number", "arrival_ts")
_KEPT = ("partition_key", "explicit_hash_key", "decode_error")
"""What a row that is set aside keeps of its record, so that it can be parsed again. A callable returns it within the
column `record`."""
_LANDED_ERROR = "landed_error"
"""`decode_error` as it is in the lake table."""
_SHARD = ["stream", "stream_epoch", "shard_id"]
_KEY = "key"
_PIECE = 1000
"""Rows of a piece: as exactly a wave can be cut."""
_BATCH = 16 * 1024 * 1024
"""Bytes that go to Spark at once."""
_MOST_ROWS = 10_000

RECORD_FIELDS = (
    *(("stream", "string"), ("stream_epoch", "long"), ("shard_id", "string"), ("sequence_number", "string")),
    *(("sub_sequence_number", "long"), ("arrival_ts", "timestamp"), ("number", "long")),
    *(("partition_key", "string"), ("explicit_hash_key", "string"), ("decode_error", "string")),
)
PAYLOAD = "payload"
"""The field of `record` with the payload as it landed, where a callable has to bring it back: a row of it may go to
quarantine afterwards."""


def rows_ddl(*, with_payload: bool) -> str:
    """The columns of the rows that `read_units` gives to Spark, as DDL. `landed`: the payload as it is in the
    lake table, where `data` has the decompressed one. `json_error`: why `data` isn't JSON, where that was asked.
    """
    fields = (*RECORD_FIELDS, (PAYLOAD, "binary")) if with_payload else RECORD_FIELDS
    record = ", ".join(f"{name}: {kind}" for name, kind in fields)
    return (
        f"record STRUCT<{record}>, partition_key STRING, explicit_hash_key STRING, data BINARY, decode_error STRING, landed BINARY, "
        "json_error STRING"
    )


def survey(order: SurveyOrder, files: Sequence[str], spec: StagingSpec) -> Survey:
    """Find the wanted rows in some of the order's files."""
    place, bound_of = source_place(spec), wanted_bounds(order)
    pieces: list[Piece] = []
    told: dict[str, tuple[FilePart, ...]] = {}
    for path in files:
        parts: dict[RowShard, FilePart] = {}
        pieces += _pieces(path, place, bound_of, order, parts)
        # Only the rows of aggregates were read, which say nothing about the file's other rows.
        if not order.aggregates:
            told[path] = tuple(parts[name] for name in sorted(parts))
    return Survey(tuple(pieces), told)


def wanted_bounds(order: SurveyOrder) -> Callable[[RowShard], Bound | None]:
    """A function that gives for a shard the bound of its wanted rows; None where no row of it is wanted."""
    wanted = {row_shard(bound.key): bound for bound in order.bounds}
    closed = {row_shard(key) for key in order.closed}
    streams = {(stream.name, stream.epoch): stream for stream in order.streams}

    def bound_of(shard: RowShard) -> Bound | None:
        if shard in closed or shard[:2] not in streams:
            return None
        if shard in wanted or not order.others:
            return wanted.get(shard)
        # A shard that nobody knows any more: it came and went while the typed table wasn't brought up.
        return Bound(ShardKey(streams[shard[:2]], shard[2]))

    return bound_of


def source_place(spec: StagingSpec) -> StagePlace:
    """The place of the lake table's files, with the columns that are read of them."""
    files, root = file_system(spec)
    ids = dict(spec.field_ids)
    return StagePlace(
        files, root, spec, pa.schema(with_id(name, _TYPES[name], ids[name]) for name in _TYPES if name in ids)
    )


def _pieces(
    path: str, place: StagePlace, bound_of: Any, order: SurveyOrder, parts: dict[RowShard, FilePart]
) -> Iterator[Piece]:
    """`parts` gets all rows of the file."""
    # Payloads are most of a file's bytes, and only an aggregate shows itself by its payload.
    names = {*_LOOKED_AT, "data"} if order.aggregates else _LOOKED_AT
    wanted = pa.schema(each for each in place.schema if each.name in names)
    with opened(place, path) as file:
        for group in range(file.num_row_groups):
            rows = rows_of(file, wanted, group)
            if order.aggregates:
                rows = rows.filter(are_aggregates(rows))
            each = _bytes_of_a_row(file, group, place)
            for name, of_shard in _by_shard(rows):
                _add(parts, name, of_shard[_KEY])
                for key, part in _chosen(name, of_shard, bound_of, order.ceiling):
                    for few in _cut(part):
                        yield _piece(key, few, path, group=group, bytes_of_a_row=each)


def _add(parts: dict[RowShard, FilePart], name: RowShard, keys: Any) -> None:
    """Note which rows of a shard a row group has.

    `keys`: the sort keys of a row group's rows of the shard, in their order.
    """
    # Rows of other engines may lack a stream, an epoch or a shard. Nobody looks for such rows.
    if None in name:
        return
    first, last, rows = keys[0].as_py(), keys[-1].as_py(), len(keys)
    if name in parts:
        known = parts[name]
        first, last, rows = min(first, known.first), max(last, known.last), rows + known.rows
    parts[name] = FilePart(*name, first, last, rows)


def are_aggregates(rows: Any) -> Any:
    """Whether each row holds an aggregate that hasn't been taken apart, as far as its first bytes tell. Rows that
    couldn't be taken apart don't count.
    """
    begins: Any = pc.starts_with  # its stub doesn't know that a pattern may be bytes
    whole: Any = pc.and_kleene(
        pc.equal(rows["sub_sequence_number"], pa.scalar(0)), pc.is_null(rows["decode_error"])
    )
    return pc.fill_null(pc.and_kleene(whole, begins(rows["data"], MAGIC)), pa.scalar(value=False))


def _cut(part: pa.Table) -> Iterator[pa.Table]:
    """The rows in pieces, each of which ends with a Kinesis record."""
    texts, start = _Texts(part[_KEY]), 0
    while start < len(texts):
        last = min(start + _PIECE, len(texts)) - 1
        # A semicolon sorts after the colon that follows the sequence number.
        end = bisect_left(texts, f"{record_in(texts[last])};")
        yield part.slice(start, end - start)
        start = end


def _piece(key: ShardKey, part: pa.Table, path: str, *, group: int, bytes_of_a_row: float) -> Piece:
    arrivals: Any = pc.min_max(part["arrival_ts"]).as_py()
    # A typed table, of which a replacement looks for older rows, has no such column.
    has_errors = "decode_error" in part.column_names
    return Piece(
        key,
        path,
        group,
        first=part[_KEY][0].as_py(),
        last=part[_KEY][-1].as_py(),
        rows=part.num_rows,
        bytes=int(part.num_rows * bytes_of_a_row),
        malformed=part.num_rows - part["decode_error"].null_count if has_errors else 0,
        oldest=arrivals["min"],
        newest=arrivals["max"],
    )


def _bytes_of_a_row(file: pq.ParquetFile, group: int, place: StagePlace) -> float:
    """The bytes of an average payload, from the footer. A typed table has none."""
    if "data" not in place.schema.names:
        return 0
    name = names_in(file).get(id_of(place.schema.field("data")))
    about = file.metadata.row_group(group)
    columns = (about.column(number) for number in range(about.num_columns))
    size = next((each.total_uncompressed_size for each in columns if each.path_in_schema == name), 0)
    return size / max(1, about.num_rows)


def _by_shard(rows: pa.Table) -> Iterator[tuple[RowShard, pa.Table]]:
    """The rows of each shard, in the order of their sort keys, with these as a further column."""
    keys: Any = sort_keys(rows["sequence_number"], rows["sub_sequence_number"])
    rows = rows.append_column(_KEY, keys)
    # A row without a sequence number isn't a record of Kinesis.
    is_there: Any = pc.is_valid(keys)
    rows = rows.filter(is_there)
    order: Any = [(name, "ascending") for name in (*_SHARD, _KEY)]
    rows = rows.take(pc.sort_indices(rows, sort_keys=order)).combine_chunks()
    # The rows are sorted, so that each shard is one run of them.
    counts = rows.group_by(_SHARD, use_threads=False).aggregate([([], "count_all")]).to_pylist()
    start = 0
    for each in counts:
        part = rows.slice(start, each["count_all"])
        start += each["count_all"]
        yield (each["stream"], each["stream_epoch"], each["shard_id"]), part


def _chosen(
    name: RowShard, of_shard: pa.Table, bound_of: Any, ceiling: str | None
) -> Iterator[tuple[ShardKey, pa.Table]]:
    """The wanted rows of a shard, if there are any."""
    bound: Bound | None = bound_of(name)
    if bound is None:
        return
    texts = _Texts(of_shard[_KEY])
    first = bisect_right(texts, bound.low)
    ends = [bisect_left(texts, each) for each in (bound.high, ceiling) if each is not None]
    end = min(ends, default=len(texts))
    part = of_shard.slice(first, max(0, end - first))
    if conditions := list(conditions_of(bound.aside, part)):
        part = part.filter(reduce(pc.and_kleene, conditions)).combine_chunks()
    if part.num_rows:
        yield bound.key, part


def conditions_of(aside: AsideRows, rows: Any) -> Iterator[Any]:
    """For each condition by which rows of a quarantine table are selected (`aside`): a column of booleans that says
    whether each row meets it."""
    if aside.reason is not None:
        yield pc.equal(rows["reason"], pa.scalar(aside.reason))
    for moment, compare in ((aside.since, pc.greater_equal), (aside.until, pc.less)):
        if moment is not None:
            yield compare(rows["arrival_ts"], pa.scalar(moment, rows["arrival_ts"].type))


@dataclass(frozen=True, slots=True)
class _Texts(Sequence[str]):
    """A column of texts, for `bisect`."""

    column: Any

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, place: Any) -> Any:
        return self.column[place].as_py()


def read_units(
    units: Iterable[ReadUnit],
    bounds: Iterable[Bound],
    spec: StagingSpec,
    *,
    malformed: bool | None = None,
    inflation: Inflation | None = None,
    json: bool = False,
    with_payload: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of the wave in these row groups. `malformed`: only rows without (False) or with (True) an error
    from landing or decompressing; None for all. `json`: whether to tell which payloads are JSON. `with_payload`:
    whether `record` has the payload, too.
    """
    place = source_place(spec)
    wanted = bounds_by_shard(bounds)
    for unit in units:
        first = unit.first
        for _, part in parts_of(unit, place, wanted):
            numbered = part.append_column("number", pa.array(range(first, first + part.num_rows), pa.int64()))
            # Inflating puts its own errors into `decode_error`, and a record that couldn't be inflated is parsed anew
            # by a redrive.
            numbered = numbered.append_column(_LANDED_ERROR, part["decode_error"])
            first += part.num_rows
            for few in _prepared(numbered, inflation, json=json):
                chosen = few if malformed is None else few.filter(_has_error(few, is_so=malformed))
                yield from _batches(chosen, with_payload=with_payload)


def _prepared(rows: pa.Table, inflation: Inflation | None, *, json: bool) -> Iterator[pa.Table]:
    for few in inflated(rows, inflation):
        unasked = pa.nulls(few.num_rows, pa.string())
        yield with_json_errors(few) if json else few.append_column("json_error", unasked)


def _has_error(rows: pa.Table, *, is_so: bool) -> Any:
    its: Any = pc.is_valid(rows["decode_error"])
    return its if is_so else pc.invert(its)


def bounds_by_shard(bounds: Iterable[Bound]) -> Mapping[tuple[str, int, str], Bound]:
    return {row_shard(each.key): each for each in bounds}


def parts_of(
    unit: ReadUnit, place: StagePlace, wanted: Mapping[tuple[str, int, str], Bound]
) -> list[tuple[ShardKey, pa.Table]]:
    """The wanted rows of a row group, by shard and in the order of their sort keys, with these as the last column."""
    with opened(place, unit.path) as file:
        rows = rows_of(file, place.schema, unit.group)
    parts = [part for name, of_shard in _by_shard(rows) for part in _chosen(name, of_shard, wanted.get, None)]
    if sum(part.num_rows for _, part in parts) != unit.rows:
        raise WrongShape(
            f"row group {unit.group} of {unit.path} has other rows than were counted: nothing was committed, and no position moved"
        )
    return parts


def _batches(rows: pa.Table, *, with_payload: bool) -> Iterator[pa.RecordBatch]:
    if not rows.num_rows:
        return
    at_once = max(1, min(_MOST_ROWS, rows.num_rows * _BATCH // max(1, rows.nbytes)))
    for start in range(0, rows.num_rows, at_once):
        part = rows.slice(start, at_once).combine_chunks().to_batches()[0]
        names = [*_RECORD, "number", *_KEPT]
        kept = [part[_LANDED_ERROR if name == "decode_error" else name] for name in names]
        if with_payload:
            kept.append(pc.coalesce(part["landed"], part["data"]))
            names.append(PAYLOAD)
        record = pa.StructArray.from_arrays(kept, names=names)
        others = ["partition_key", "explicit_hash_key", "data", "decode_error", "landed", "json_error"]
        yield pa.RecordBatch.from_arrays(
            [record, *(part[name] for name in others)], names=["record", *others]
        )
