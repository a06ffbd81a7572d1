"""The work of one Spark task that takes aggregates of the lake table apart, as a plain function: files are written
anew, with a row for each user record in the place of an aggregate. All other rows stay as they are, with all columns.

Nothing here imports Spark or the catalog.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.files.binary_views import without_views
from headrace.pipeline.lake.files.sort_key import sort_keys
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.lake.staging.aggregates import taken_apart
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.typed.tasks.exchange import copied_anew
from headrace.pipeline.typed.tasks.read import are_aggregates
from headrace.pipeline.typed.tasks.write import by_shard
from headrace.pipeline.typed.values import ApartCount, Bound, Parsed, ShardCount


@dataclass(frozen=True, slots=True)
class UnpackSpec:
    """What a Spark task has to know to take aggregates apart. It can be pickled, and holds no credentials."""

    table: StagingSpec
    schema: pa.Schema
    """All columns of the lake table."""
    selected: tuple[Bound, ...]
    """Only aggregates of these rows are taken apart. A shard may have several, of which none has rows of another
    one."""
    streams: tuple[StreamId, ...]
    shards: Mapping[ShardKey, HashRange]


def unpack_files(paths: Sequence[str], spec: UnpackSpec, *, now: Callable[[], datetime]) -> Parsed:
    """The work of one task: write these files anew, with the selected aggregates taken apart."""
    files, root = file_system(spec.table)
    place = StagePlace(files, root, spec.table, spec.schema)
    streams = {(stream.name, stream.epoch): stream for stream in spec.streams}
    bounds = _bounds_of(spec.selected)
    counts: dict[ShardKey, ShardCount] = {}
    apart: dict[tuple[ShardKey, str], ApartCount] = {}

    def parts(rows: pa.Table) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
        for batch in rows.to_batches():
            for key, shard_rows in by_shard(batch, streams):
                stays, aggregates = _divided(shard_rows, bounds.get(key, ()))
                if stays.num_rows:
                    count(ShardCount(key, aside=stays.num_rows))
                    yield key, stays
                for low, aggregate_rows in aggregates:
                    landing = key, low
                    apart[landing] = apart.get(landing, ApartCount(*landing)).plus(
                        ApartCount(*landing, aggregates=len(aggregate_rows))
                    )
                    # KCL drops user records of other shards, so that an aggregate may become no row.
                    for user_rows in filter(
                        len, map(without_views, taken_apart(aggregate_rows, spec.shards.get(key)))
                    ):
                        count(ShardCount(key, parsed=len(user_rows)))
                        apart[landing] = apart[landing].plus(ApartCount(*landing, rows=len(user_rows)))
                        yield key, user_rows

    def count(more: ShardCount) -> None:
        counts[more.key] = counts.get(more.key, ShardCount(more.key)).plus(more)

    staged = copied_anew(paths, place, parts, now)
    return Parsed(
        staged,
        counts=tuple(counts[key] for key in sorted(counts)),
        apart=tuple(apart[landing] for landing in sorted(apart)),
    )


def _bounds_of(selected: Iterable[Bound]) -> Mapping[ShardKey, Sequence[Bound]]:
    """The bounds of each shard, in their order."""
    by_shard_key: dict[ShardKey, list[Bound]] = {}
    for selected_bound in sorted(selected, key=lambda bound: bound.low):
        by_shard_key.setdefault(selected_bound.key, []).append(selected_bound)
    return by_shard_key


def _divided(
    rows: pa.RecordBatch, bounds: Sequence[Bound]
) -> tuple[pa.RecordBatch, Iterable[tuple[str, pa.RecordBatch]]]:
    """The rows that stay, and the aggregates of each bound, with its beginning."""
    if not bounds:
        return rows, ()
    aggregates = np.flatnonzero(are_aggregates(rows).to_numpy(zero_copy_only=False))
    keys: Any = sort_keys(rows["sequence_number"], rows["sub_sequence_number"])
    lows = [bound.low for bound in bounds]
    members: dict[int, list[int]] = {}
    for row, text in zip(aggregates.tolist(), keys.take(pa.array(aggregates)).to_pylist(), strict=True):
        # A row without a sequence number isn't a record of Kinesis.
        place = -1 if text is None else bisect_left(lows, text) - 1
        if place >= 0 and ((high := bounds[place].high) is None or text < high):
            members.setdefault(place, []).append(row)
    stays = np.ones(rows.num_rows, bool)
    for places in members.values():
        stays[places] = False
    return rows.filter(pa.array(stays)), [(lows[n], rows.take(pa.array(members[n]))) for n in sorted(members)]
