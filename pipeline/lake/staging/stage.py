"""Staging as one Spark job: shards are packed into tasks, each task stages its shards, and returns a manifest.

Records never pass through the JVM: each task reads Kinesis and writes Parquet in Python, and Spark carries one JSON
document per task. If Spark runs a task twice, the files of one try are orphans: only files in the returned manifests
are committed.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.landing.pace import MOST_BYTES, MOST_RECORDS
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, MissingPackage, Unreachable
from headrace.pipeline.lake.spark.engine_zip import is_connect, ship
from headrace.pipeline.lake.spark.spark_job import cause_of, run_tasks
from headrace.pipeline.lake.spark.tasks import spark_errors
from headrace.pipeline.lake.spark.waiting import PATIENCE, telling, warn
from headrace.pipeline.lake.staging.kept_iterators import KeptIterators
from headrace.pipeline.lake.staging.stage_codec import (
    decode,
    decode_all,
    encode,
)
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from headrace.pipeline.ports.tasks import Now, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING = re.compile(r"(?:ModuleNotFoundError: No module named '|PACKAGE_NOT_INSTALLED\] )([\w.-]+)")
_LEAST_WEIGHT = 0.01
"""The weight of a shard without expected records, which costs a request all the same."""


@dataclass(frozen=True, slots=True)
class _Task:
    batches: bytes
    limits: BatchLimits


class SparkStage:
    """The port Stage on Spark. The Spark session is made when the stage is opened, not before."""

    def __init__(
        self,
        session: Callable[[OnWaiting], SparkSession],
        pages: Callable[[], Pages],
        *,
        threads: int = 16,
        tasks: int = 2,
        patience: timedelta = PATIENCE,
    ) -> None:
        """The stage of one Spark session.

        `pages`: called for each job, because the reader has the credentials of its moment.
        """
        self._session = session
        self._pages = pages
        self._threads = threads
        self._tasks = tasks
        self._patience = patience
        self._running: SparkSession | None = None
        self._opened: SparkSession | None = None
        self._iterators = KeptIterators()

    def open(self, on_waiting: OnWaiting) -> None:
        session = self._session(on_waiting)
        # A session that has run a job has its executors. A new one, after a server was started anew, hasn't.
        if session is self._opened:
            return
        self._running, gave_up = session, threading.Event()

        def give_up() -> None:
            gave_up.set()
            self.cancel()

        with telling(on_waiting, "Spark to run a first job", at_most=self._patience, on_limit=give_up):

            def meaning(text: str) -> HeadraceError:
                late = f"the job took longer than {self._patience.total_seconds():.0f} s"
                why = late if gave_up.is_set() else cause_of(text)
                return Unreachable(
                    f"Spark didn't run a first job: {why}; nothing was read, and the next run tries again"
                )

            try:
                with spark_errors(meaning):
                    ship(session)
                    session.range(1).collect()  # the first executor of a cluster may take minutes to come
            finally:
                self._running = None
        self._opened = session

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        if not batches:
            return Manifest(())
        packed = pack(self._iterators.given_to(batches), min(self._tasks, tasks_within(limits)))
        shares = shares_of(packed, limits)
        tasks = tuple(
            _Task(encode(task_batches), share) for task_batches, share in zip(packed, shares, strict=True)
        )
        work = _work(tasks, self._pages(), spec, self._threads)
        # Noted before the job begins, so that `cancel` in another thread finds it.
        session = self._running = self._session(warn)
        try:
            with spark_errors(_meaning):
                manifests = run_tasks(session, len(packed), work)
        finally:
            self._running = None
        manifest = _joined(list(decode_all(manifests, Manifest)), batches)
        self._iterators.note(manifest)
        return manifest

    def cancel(self) -> None:
        """End the running Spark job, if there is one: `stage` raises then, and files that the job wrote are never
        committed.
        """
        session = self._running
        if session is None:
            return
        if is_connect(session):
            session.interruptAll()
        else:
            session.sparkContext.cancelAllJobs()


def pack(batches: Sequence[Batch], most: int) -> list[list[Batch]]:
    """Pack shards into few tasks of about the same weight: heaviest shards first, each into the lightest task so far.

    One task reads many shards at once, because a shard gives at most 2 MB/s and a core decodes more than a hundred
    times that.
    """
    total = math.ceil(sum(_weight(batch) for batch in batches))
    tasks: list[list[Batch]] = [[] for _ in range(max(1, min(total, most, len(batches))))]
    loads = [0.0] * len(tasks)
    for batch in sorted(batches, key=lambda b: (-_weight(b), b.key)):
        lightest = loads.index(min(loads))
        tasks[lightest].append(batch)
        loads[lightest] += _weight(batch)
    return tasks


def _weight(batch: Batch) -> float:
    return max(batch.weight, _LEAST_WEIGHT)


def tasks_within(limits: BatchLimits) -> int:
    """The most tasks for which a wave's limits suffice: at least half of the limits has to be left after
    `shares_of` has reserved its pages.
    """
    return 1 + min(limits.records // (2 * MOST_RECORDS), limits.bytes // (2 * MOST_BYTES))


def shares_of(packed: Sequence[Sequence[Batch]], limits: BatchLimits) -> list[BatchLimits]:
    """Each task's part of the wave's limits on records and bytes, by weight. The time limit is the same for all."""
    # A task may read one page more than its part. All tasks but one get that page less, so that the wave as a whole
    # reads at most one page more than its limits.
    pages = len(packed) - 1
    records, bytes_ = limits.records - pages * MOST_RECORDS, limits.bytes - pages * MOST_BYTES
    weights = [sum(map(_weight, task)) for task in packed]
    fractions = [weight / sum(weights) for weight in weights]
    return [BatchLimits(math.ceil(records * p), math.ceil(bytes_ * p), limits.seconds) for p in fractions]


def _work(tasks: tuple[_Task, ...], pages: Pages, spec: StagingSpec, threads: int) -> Work:
    def work(number: int, _now: Now) -> bytes:
        from headrace.pipeline.lake.staging.host_load import host_gauge
        from headrace.pipeline.lake.staging.stage_task import stage_batches

        task = tasks[number]
        manifest = stage_batches(
            decode(task.batches, tuple[Batch, ...]),
            pages,
            spec=spec,
            limits=task.limits,
            threads=threads,
            gauge=host_gauge(),
        )
        return encode(manifest)

    return work


def _joined(manifests: Sequence[Manifest], batches: Sequence[Batch]) -> Manifest:
    # A shard that no task returned must not pass for a shard without new records.
    by_key = {line.key: line for manifest in manifests for line in manifest.staged}
    if by_key.keys() != {batch.key for batch in batches}:
        raise Unreachable(
            f"the Spark job returned {len(by_key)} of {counted(len(batches), 'shard')}. Nothing was committed, and the next wave "
            "reads the same records again"
        )
    return Manifest(
        tuple(by_key[batch.key] for batch in batches),
        tuple(f for m in manifests for f in m.files),
        tuple(load for m in manifests for load in m.loads),
    )


def _meaning(text: str) -> HeadraceError:
    """What the error of a failed Spark job means."""
    if missing := _MISSING.search(text):
        return MissingPackage(
            f"a Spark worker lacks the Python package {missing[1]!r} that staging needs. Nothing was committed. Install the "
            "package where Spark's workers run, or set PYSPARK_PYTHON there to a Python that has it"
        )
    return Unreachable(
        f"the Spark job that stages records failed: {cause_of(text)}. Nothing was committed, and upkeep deletes the files "
        "that the job left behind. The next wave reads the same records again"
    )
