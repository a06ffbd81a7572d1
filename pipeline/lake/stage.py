"""Staging as one Spark job: shards are packed into tasks, each task stages its own, manifests come back.

The payload never crosses the JVM: tasks read Kinesis and write Parquet themselves, and Spark carries a JSON
document per task. A task that runs twice leaves orphans only: what counts is what the job returned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.core.batch import Batch, Limits, Manifest
from pipeline.core.words import counted
from pipeline.errors import HeadraceError, MissingPackage, Unreachable
from pipeline.lake.ship import is_connect, ship
from pipeline.lake.stage_codec import decode_batches, decode_manifest, encode_batches, encode_manifest
from pipeline.ports import Pages, StagingSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_COLUMN = "manifest"
_MISSING = re.compile(r"(?:ModuleNotFoundError: No module named '|PACKAGE_NOT_INSTALLED\] )([\w.-]+)")
_CANCELLED = re.compile(r"\[(?:OPERATION_CANCELED|SPARK_JOB_CANCELLED)\]")
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
_JAVA_ERROR = re.compile(r"Exception: ([^.\n]+)")
_LEAST_WEIGHT = 0.01


@dataclass(frozen=True, slots=True)
class _Task:
    batches: bytes
    limits: Limits


class SparkStage:
    """The Stage port on Spark. A session is asked for when there is something to stage, not before."""

    def __init__(
        self, session: Callable[[], SparkSession], pages: Pages, *, threads: int = 16, tasks: int = 2
    ) -> None:
        self._session = session
        self._pages = pages
        self._threads = threads
        self._tasks = tasks
        self._running: SparkSession | None = None

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: Limits) -> Manifest:
        if not batches:
            return Manifest(())
        packed = pack(batches, self._tasks)
        work = _work(_tasks(packed, limits), self._pages, spec, self._threads)
        session = self._running = self._session()
        try:
            ship(session)
            lines = (
                session.range(0, len(packed), 1, len(packed)).mapInArrow(work, f"{_COLUMN} binary").toArrow()
            )
        except Exception as error:
            if (told := _told(error)) is None:
                raise
            raise told from error
        finally:
            self._running = None
        return _joined(_manifests(lines), batches)

    def cancel(self) -> None:
        """End the Spark job that runs, if one does; `stage` then raises. What it staged are orphans."""
        session = self._running
        if session is None:
            return
        if is_connect(session):
            session.interruptAll()
        else:
            session.sparkContext.cancelAllJobs()


def pack(batches: Sequence[Batch], most: int) -> list[list[Batch]]:
    """Few tasks of about the same weight: the heaviest shard first, always into the lightest task."""
    wanted = math.ceil(sum(_weight(batch) for batch in batches))
    tasks: list[list[Batch]] = [[] for _ in range(max(1, min(wanted, most, len(batches))))]
    loads = [0.0] * len(tasks)
    for batch in sorted(batches, key=lambda b: (-_weight(b), b.key)):
        lightest = loads.index(min(loads))
        tasks[lightest].append(batch)
        loads[lightest] += _weight(batch)
    return tasks


def _weight(batch: Batch) -> float:
    return max(batch.weight, _LEAST_WEIGHT)


def _tasks(packed: Sequence[Sequence[Batch]], limits: Limits) -> tuple[_Task, ...]:
    """Each task's part of the wave's box, by weight; time passes for all alike."""
    total = sum(_weight(batch) for task in packed for batch in task)
    out = []
    for task in packed:
        part = sum(map(_weight, task)) / total
        share = Limits(math.ceil(limits.records * part), math.ceil(limits.bytes * part), limits.seconds)
        out.append(_Task(encode_batches(task), share))
    return tuple(out)


def _work(
    tasks: tuple[_Task, ...], pages: Pages, spec: StagingSpec, threads: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that travels. What it imports, it imports on the worker, from the shipped zip."""

    def work(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from pipeline.lake.gauge import host_gauge
        from pipeline.lake.stage_task import stage_batches

        for batch in numbers:
            positions: list[Any] = batch.column(0).to_pylist()
            for number in positions:
                task = tasks[number]
                manifest = stage_batches(
                    decode_batches(task.batches),
                    pages,
                    spec=spec,
                    limits=task.limits,
                    threads=threads,
                    gauge=host_gauge(),
                )
                column = pa.array([encode_manifest(manifest)], pa.binary())
                yield pa.RecordBatch.from_arrays([column], names=[_COLUMN])

    return work


def _manifests(lines: pa.Table) -> list[Manifest]:
    texts: list[Any] = lines.column(_COLUMN).to_pylist()
    return [decode_manifest(text) for text in texts]


def _joined(manifests: Sequence[Manifest], batches: Sequence[Batch]) -> Manifest:
    by_key = {line.key: line for manifest in manifests for line in manifest.staged}
    if by_key.keys() != {batch.key for batch in batches}:
        raise Unreachable(
            f"Spark brought back {len(by_key)} of {counted(len(batches), 'shard')}; nothing was committed, the wave is read again"
        )
    return Manifest(
        tuple(by_key[batch.key] for batch in batches),
        tuple(f for m in manifests for f in m.files),
        tuple(load for m in manifests for load in m.loads),
    )


def _told(error: Exception) -> HeadraceError | None:
    """What a failed job means; None where it isn't Spark that failed.

    Connect raises PySparkException and sometimes bare gRPC errors, classic Spark also py4j's: told apart by
    where they come from, so that neither client has to be installed for the other.
    """
    if type(error).__module__.partition(".")[0] not in {"pyspark", "grpc", "py4j"}:
        return None
    text = str(error)
    if missing := _MISSING.search(text):
        return MissingPackage(
            f"a Spark worker lacks the Python package {missing[1]!r} that staging needs; nothing was committed; install "
            "it where Spark's workers run, or set PYSPARK_PYTHON there to a Python that has it"
        )
    return Unreachable(
        f"the Spark job that stages records failed: {_cause(text)}; nothing was committed, and files that it left "
        "are removed as orphans; the wave is read again"
    )


def _cause(text: str) -> str:
    """What the worker's traceback ends in, or the innermost thing that Spark itself says."""
    if _CANCELLED.search(text):
        return "it was cancelled"
    if found := _PYTHON_ERROR.findall(text) or _JAVA_ERROR.findall(text):
        return str(found[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "it gave no reason")
