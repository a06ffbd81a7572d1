"""The work of one Spark task that takes aggregates of the lake table apart, as a plain function: files are written anew, with a row for each
user record in the place of an aggregate. All other rows stay as they are, with all columns.

Nothing here imports Spark or the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.parse_values import Bound, Parsed, ShardCount
from pipeline.core.shard import HashRange
from pipeline.core.stream import ShardKey, StreamId
from pipeline.lake.aggregates import taken_apart
from pipeline.lake.parse_read import are_aggregates, bounds_by_shard
from pipeline.lake.parse_write import by_shard
from pipeline.lake.quarantine_exchange import copied_anew, is_in
from pipeline.lake.stage_place import StagePlace, file_system
from pipeline.lake.views import without_views
from pipeline.lake_ports import StagingSpec


@dataclass(frozen=True, slots=True)
class UnpackSpec:
    """What a task has to know. It can be pickled, and holds no credentials."""

    table: StagingSpec
    schema: pa.Schema
    """All columns of the lake table."""
    selected: tuple[Bound, ...]
    """Only aggregates of these rows are taken apart."""
    streams: tuple[StreamId, ...]
    shards: Mapping[ShardKey, HashRange]


def unpack_files(paths: Sequence[str], spec: UnpackSpec, *, now: Callable[[], datetime]) -> Parsed:
    files, root = file_system(spec.table)
    place = StagePlace(files, root, spec.table, spec.schema)
    known = {(stream.name, stream.epoch): stream for stream in spec.streams}
    bounds = bounds_by_shard(spec.selected)
    counts: dict[ShardKey, ShardCount] = {}

    def parts(rows: pa.Table) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
        for batch in rows.to_batches():
            for key, its in by_shard(batch, known):
                bound = bounds.get((key.stream.name, key.stream.epoch, key.shard_id))
                yield from counted_parts(key, its, bound)

    def counted_parts(
        key: ShardKey, its: pa.RecordBatch, bound: Bound | None
    ) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
        stays, made = (its, ()) if bound is None else _divided(its, bound, spec.shards.get(key))
        for part, is_made in ((stays, False), *((part, True) for part in made)):
            if part.num_rows:
                count = ShardCount(key, parsed=part.num_rows * is_made, aside=part.num_rows * (not is_made))
                counts[key] = counts.get(key, ShardCount(key)).plus(count)
                yield key, part

    made = copied_anew(paths, place, parts, now)
    return Parsed(made, counts=tuple(counts[key] for key in sorted(counts)))


def _divided(
    rows: pa.RecordBatch, bound: Bound, shard: HashRange | None
) -> tuple[pa.RecordBatch, Iterable[pa.RecordBatch]]:
    """The rows that stay, and the rows of the aggregates among them."""
    is_one = pc.and_kleene(are_aggregates(rows), is_in(rows, bound))
    aggregates = rows.filter(is_one)
    return rows.filter(pc.invert(is_one)), map(without_views, taken_apart(aggregates, shard))
