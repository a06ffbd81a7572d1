"""The work of one Spark task that copies rows of the lake table into the table of a window, as a plain function.

Nothing here imports Spark or the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.files.stage_files import CantWrite, TaskFiles
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.typed.tasks.read import bounds_by_shard, parts_of, source_place
from headrace.pipeline.typed.values import Bound, Parsed, ReadUnit, ShardCount


@dataclass(frozen=True, slots=True)
class CopySpec:
    """What a Spark task has to know to copy rows. It can be pickled, and holds no credentials."""

    source: StagingSpec
    table: StagingSpec
    bounds: tuple[Bound, ...]


def copy_units(
    units: Iterable[ReadUnit], spec: CopySpec, *, now: Callable[[], datetime], fresh: Callable[[], str]
) -> Parsed:
    """The work of one task: copy these row groups. All columns that Headrace writes are copied; columns that
    others have added to the lake table aren't.
    """
    place, bounds = source_place(spec.source), bounds_by_shard(spec.bounds)
    files = TaskFiles(spec.table, now=now, fresh=fresh)
    counts: dict[ShardKey, int] = {}
    numbers: list[tuple[int, int]] = []
    try:
        for unit in units:
            for key, piece in parts_of(unit, place, bounds):
                for batch in piece.select(place.schema.names).combine_chunks().to_batches():
                    files.add(key, batch)
                counts[key] = counts.get(key, 0) + piece.num_rows
            numbers.append((unit.first, unit.rows))
        return Parsed(
            files.finish(),
            counts=tuple(ShardCount(key, rows) for key, rows in sorted(counts.items())),
            numbers=tuple(numbers),
        )
    # Also where the task is interrupted: files that no commit names would lie there until upkeep finds them.
    except BaseException as error:
        files.discard()
        if isinstance(error, CantWrite):
            raise error.error from None
        raise
