"""The reading of data files of the lake table by one Spark task, as a plain function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.shards.sort_texts import RowShard
from headrace.pipeline.lake.files.allocators import keep_memory
from headrace.pipeline.lake.files.file_rows import opened, rows_of, with_id
from headrace.pipeline.lake.files.sort_key import sort_keys
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.source.columns import LAKE_TYPES, in_form


@dataclass(frozen=True, slots=True)
class ShardRows:
    """The rows of a shard with sort keys above `low` and below `high` (None: without an end)."""

    shard: RowShard
    low: str = ""
    high: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChoice:
    """Which rows a data frame has: those that meet all conditions. None: without this condition."""

    since: datetime | None = None
    until: datetime | None = None
    stream: str | None = None
    shard: str | None = None
    ranges: tuple[ShardRows, ...] | None = None
    """The rows of these ranges and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPart:
    """The files and rows of the lake table that one Spark task reads. It can be pickled."""

    paths: tuple[str, ...]
    spec: StagingSpec
    choice: RowChoice
    generations: tuple[tuple[RowShard, int], ...] = ()
    """The generations of shards that have parents; all others have 0."""


def read_files(part: FilesPart) -> Iterator[pa.RecordBatch]:
    """The chosen rows of the part's files, each file in its own order."""
    # Each task of Spark reads many row groups one after the other, and memory that is given back in
    # between comes back by page faults.
    keep_memory()
    place, order = _place(part.spec), dict(part.generations)
    for path in part.paths:
        with opened(place, path) as file:
            for group in range(file.num_row_groups):
                rows = _chosen(rows_of(file, place.schema, group), part.choice)
                if rows.num_rows:
                    yield from in_form(rows, _generations(rows, order))


def _place(spec: StagingSpec) -> StagePlace:
    files, root = file_system(spec)
    ids = dict(spec.field_ids)
    columns = [with_id(name, kind, ids[name]) for name, kind in LAKE_TYPES.items() if name in ids]
    return StagePlace(files, root, spec, pa.schema(columns))


def _chosen(rows: pa.Table, choice: RowChoice) -> pa.Table:
    conditions = list(_conditions(rows, choice))
    return rows.filter(reduce(pc.and_kleene, conditions)) if conditions else rows


def _conditions(rows: pa.Table, choice: RowChoice) -> Iterator[Any]:
    arrivals: Any = rows["arrival_ts"]
    if choice.since is not None:
        yield pc.greater_equal(arrivals, pa.scalar(choice.since, arrivals.type))
    if choice.until is not None:
        yield pc.less(arrivals, pa.scalar(choice.until, arrivals.type))
    if choice.stream is not None:
        yield pc.equal(rows["stream"], pa.scalar(choice.stream))
    if choice.shard is not None:
        yield pc.equal(rows["shard_id"], pa.scalar(choice.shard))
    if choice.ranges is not None:
        yield _in_ranges(rows, choice.ranges)


def _in_ranges(rows: pa.Table, ranges: tuple[ShardRows, ...]) -> Any:
    """Whether each row is in one of the ranges. Another engine may have inserted rows without a sort key."""
    keys: Any = sort_keys(rows["sequence_number"], rows["sub_sequence_number"])
    here = set(pc.unique(rows["shard_id"]).to_pylist())
    inside: Any = pa.chunked_array([pa.repeat(pa.scalar(value=False), rows.num_rows)])
    for shard_rows in ranges:
        stream, epoch, shard_id = shard_rows.shard
        # A file has rows of some shards only, and a comparison of texts for each range of a large
        # stream would cost more than the reading.
        if shard_id not in here:
            continue
        conditions = [
            pc.equal(rows["stream"], pa.scalar(stream)),
            pc.equal(rows["stream_epoch"], pa.scalar(epoch)),
            pc.equal(rows["shard_id"], pa.scalar(shard_id)),
            pc.greater(keys, pa.scalar(shard_rows.low)),
        ]
        if shard_rows.high is not None:
            conditions.append(pc.less(keys, pa.scalar(shard_rows.high)))
        inside = pc.or_(inside, pc.fill_null(reduce(pc.and_kleene, conditions), pa.scalar(value=False)))
    return inside


def _generations(rows: pa.Table, order: Mapping[RowShard, int]) -> Any:
    """The generation of each row's shard."""
    zeros: Any = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)])
    if not order:
        return zeros
    here = set(pc.unique(rows["shard_id"]).to_pylist())
    numbers = zeros
    for (stream, epoch, shard_id), generation in order.items():
        if shard_id in here:
            is_of = reduce(
                pc.and_kleene,
                [
                    pc.equal(rows["shard_id"], pa.scalar(shard_id)),
                    pc.equal(rows["stream"], pa.scalar(stream)),
                    pc.equal(rows["stream_epoch"], pa.scalar(epoch)),
                ],
            )
            numbers = pc.if_else(
                pc.fill_null(is_of, pa.scalar(value=False)), pa.scalar(generation, pa.int32()), numbers
            )
    return numbers
