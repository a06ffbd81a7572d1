"""What one Spark task does, as a plain function: read many shards at once, write their rows, tell what it did.

Nothing here knows Spark. A shard gives at most 2 MB/s while a core decodes hundreds, so a task reads many
shards in threads. It goes in rounds: each shard gets its share of the box by weight; what idle shards leave
over is shared out again among those that could go on. The shard that waits longest comes first, so that one
that found the box full is among the first next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow as pa

from pipeline.core.batch import Batch, Limits, Manifest, StagedFile
from pipeline.errors import HeadraceError
from pipeline.lake.gauge import Gauge
from pipeline.lake.stage_files import write_files
from pipeline.lake.stage_read import Box, ShardReading
from pipeline.ports import Clock, Pages, StagingSpec

LEAST_WEIGHT = 0.01
"""An idle shard costs a request too."""


class HostClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def _fresh() -> str:
    return uuid4().hex


def stage_batches(
    batches: Sequence[Batch],
    pages: Pages,
    *,
    spec: StagingSpec,
    limits: Limits,
    threads: int,
    gauge: Gauge | None = None,
    clock: Clock | None = None,
    fresh: Callable[[], str] = _fresh,
) -> Manifest:
    """Read and stage these shards. One that fails is an error in its line; the others land."""
    clock = clock or HostClock()
    if gauge is not None:
        gauge.begin()
    readings = [ShardReading(batch, pages) for batch in batches]
    _read_all(readings, Box(limits, clock), threads)
    files = _write_all(readings, spec, now=clock.now, fresh=fresh)
    loads = () if gauge is None else gauge.end()
    return Manifest(tuple(reading.staged for reading in readings), files, loads)


def _read_all(readings: Sequence[ShardReading], box: Box, threads: int) -> None:
    waiting = sorted(readings, key=lambda r: (r.batch.witness, r.batch.key))
    with ThreadPoolExecutor(max(1, min(threads, len(waiting))), "headrace-shard") as pool:
        while waiting and box.has_room:
            shares = _shares(waiting, box)  # all of them before the first page shrinks the box
            jobs = [
                pool.submit(reading.read_on, box, records=records, bytes_=bytes_)
                for reading, (records, bytes_) in zip(waiting, shares, strict=True)
            ]
            for job in jobs:
                job.result()
            waiting = [r for r in waiting if not r.over]


def _shares(waiting: Sequence[ShardReading], box: Box) -> list[tuple[int, int]]:
    total = sum(_weight(reading.batch) for reading in waiting)
    return [box.share(_weight(reading.batch) / total) for reading in waiting]


def _weight(batch: Batch) -> float:
    return max(batch.weight, LEAST_WEIGHT)


def _write_all(
    readings: Sequence[ShardReading],
    spec: StagingSpec,
    *,
    now: Callable[[], datetime],
    fresh: Callable[[], str],
) -> tuple[StagedFile, ...]:
    """A file that can't be written takes all rows of the task along: shards share files, and none lands in part."""
    filled = [r for r in readings if r.batches]
    try:
        return write_files({r.batch.key: r.batches for r in filled}, spec, now=now, fresh=fresh)
    except (OSError, pa.ArrowException, HeadraceError) as error:
        why = (
            f"data files could not be written to {spec.location}: {_first_line(error)}; nothing of this wave was "
            "staged here and no position moved; once there is space and access the shard is read again"
        )
        for reading in filled:
            reading.failed_to_write(why)
        return ()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
