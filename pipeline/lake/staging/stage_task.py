"""The work of one Spark task, as a plain function: read many shards at once, write their rows, return a manifest.

Nothing here imports Spark. A shard gives at most 2 MB/s while a core decodes hundreds, so a task reads many shards in
threads, and writes their rows while it reads on. It works in rounds: each shard gets a share of the task's budget by
its weight, and the next round divides what idle shards have left over among the others. Shards are read in the order of
how long they have waited, so that a shard which got nothing of a used-up budget is among the first in the next wave.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from socket import gethostname
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest, StagedFile
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.lake.files.allocators import keep_memory
from headrace.pipeline.lake.files.stage_files import CantWrite, TaskFiles
from headrace.pipeline.lake.staging.host_load import Gauge
from headrace.pipeline.lake.staging.stage_read import Box, ShardReading
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.staging import StagingSpec

if TYPE_CHECKING:
    from headrace.pipeline.ports.base import Clock

_FULL = (errno.ENOSPC, errno.EDQUOT)
LEAST_WEIGHT = 0.01
"""The weight of a shard without expected records, which costs a request all the same."""


def _fresh() -> str:
    return uuid4().hex


def stage_batches(
    batches: Sequence[Batch],
    pages: Pages,
    *,
    spec: StagingSpec,
    limits: BatchLimits,
    threads: int,
    gauge: Gauge | None = None,
    clock: Clock | None = None,
    fresh: Callable[[], str] = _fresh,
) -> Manifest:
    """Read and stage these shards. In the manifest, a shard that failed has an error; the other shards can land."""
    clock = clock or SystemClock()
    if gauge is not None:
        gauge.begin()
    keep_memory()
    task_files = TaskFiles(spec, now=clock.now, fresh=fresh)
    readings = [ShardReading(batch, pages, task_files.add, unpack=spec.unpack) for batch in batches]
    files: tuple[StagedFile, ...] = ()
    try:
        _read_all(readings, Box(limits, clock), threads)
        files = task_files.finish()
    except CantWrite as unwritten:
        # Nothing of the task is staged: shards share files, and no shard may land in part.
        task_files.discard()
        for reading in readings:
            reading.failed_to_write(_why_unwritten(unwritten.error, spec))
    except BaseException:
        task_files.discard()
        raise
    # After the files are closed, because writing is a part of the load.
    loads = () if gauge is None else gauge.end()
    return Manifest(tuple(reading.staged for reading in readings), files, loads)


def _read_all(readings: Sequence[ShardReading], box: Box, threads: int) -> None:
    # Those that were read longest ago first: they are nearest to losing records.
    waiting = sorted(readings, key=lambda r: (r.batch.witness, r.batch.key))
    with ThreadPoolExecutor(max(1, min(threads, len(waiting))), "headrace-shard") as pool:
        # In several rounds: what quiet shards leave of their shares goes to those that have more.
        while waiting and box.has_room:
            # All shares are computed before the first page is taken from the budget.
            shares = _shares(waiting, box)
            jobs = [
                pool.submit(reading.read_on, box, records=records, bytes_=bytes_)
                for reading, (records, bytes_) in zip(waiting, shares, strict=True)
            ]
            for job in jobs:
                # Raises only what concerns the whole task: `read_on` turns a shard's own error into its manifest line.
                job.result()
            waiting = [r for r in waiting if not r.over]


def _shares(waiting: Sequence[ShardReading], box: Box) -> list[tuple[int, int]]:
    total = sum(_weight(reading.batch) for reading in waiting)
    return [box.share(_weight(reading.batch) / total) for reading in waiting]


def _weight(batch: Batch) -> float:
    return max(batch.weight, LEAST_WEIGHT)


def _why_unwritten(error: Exception, spec: StagingSpec) -> str:
    if isinstance(error, OSError) and error.errno in _FULL:
        return (
            f"the disk is full: on the host {gethostname()}, data files could not be written to {spec.location} "
            f"({_first_line(error)}). This task staged nothing, so none of its shards landed, and no position moved. Make space there; "
            "the shard is read again by itself"
        )
    return (
        f"data files could not be written to {spec.location}: {_first_line(error)}. This task staged nothing, and no "
        "position moved. The shard is read again, which can succeed once there is space and access"
    )


def _first_line(error: Exception) -> str:
    if not isinstance(error, OSError | pa.ArrowException | HeadraceError):
        # The text of an unexpected error could quote a record.
        return f"an unexpected {type(error).__name__}"
    return (str(error).splitlines() or [type(error).__name__])[0]
