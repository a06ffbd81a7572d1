"""The `Stage` port for a processor's application: one Spark job reads all shards of a wave and hands their records to the
processor. No file is written.

    driver: claimed rows, reader ─► task: page ─► process of the processor ─► checkpoint in the row ─► a report
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.shards.stream import lease_key
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.staging.stage import pack, shares_of, tasks_within
from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.staging import OnWaiting, Stage, StagingSpec
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work
from headrace.pipeline.processors.application.claimed_rows import ClaimedRows
from headrace.pipeline.processors.application.row_checkpoints import OneRow
from headrace.pipeline.processors.application.task import ClaimedShard, Delivering, DeliverySpec
from headrace.pipeline.processors.code import ProcessorCode
from headrace.pipeline.settings.processors_block import ProcessorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStage:
    settings: ProcessorSettings
    multi: bool
    worker: str
    """The worker whose shards these are."""
    spark: Stage
    """The stage of this worker's Spark, which is opened as always."""
    tasks: Tasks
    threads: int
    """How many shards a task reads at once."""
    rows: ClaimedRows
    pages: Callable[[], Pages]
    task_rows: Callable[[], OneRow]
    """Both are pickled to the tasks, with the keys of their moment."""

    def open(self, on_waiting: OnWaiting) -> None:
        ProcessorCode(self.settings).check()
        self.spark.open(on_waiting)

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        if not batches:
            return Manifest(())
        most, threads = self._at_once
        packed = pack(batches, min(most, tasks_within(limits)))
        parts = [[self._claimed(batch) for batch in batches_of_task] for batches_of_task in packed]
        code = ProcessorCode(self.settings)
        work = _work(
            parts,
            shares_of(packed, limits),
            self.pages(),
            self.task_rows(),
            DeliverySpec(code.child, code.rules, self.worker),
            threads,
        )
        reports = [decode(report, Delivering) for report in self.tasks.run(len(parts), work, self._job)]
        for report in reports:
            for row in report.rows:
                self.rows.note_moved(row, has_rest=row.key in report.with_rest)
        return _joined([report.manifest for report in reports], batches)

    @property
    def _at_once(self) -> tuple[int, int]:
        """The most tasks, and how many shards each works on at once."""
        most = self.settings.parallelism
        if most is None:
            return self.tasks.cores, self.threads
        tasks = min(self.tasks.cores, most)
        return tasks, max(1, min(self.threads, most // tasks))

    def _claimed(self, batch: Batch) -> ClaimedShard:
        return ClaimedShard(batch, self.rows.claimed[lease_key(batch.key, multi=self.multi)])

    @property
    def _job(self) -> Job:
        return Job(
            f"runs the processor {self.settings.name}",
            "What it has checkpointed stays, and the next wave begins at the checkpoints in the lease rows",
        )


def _joined(manifests: Sequence[Manifest], batches: Sequence[Batch]) -> Manifest:
    by_key = {line.key: line for manifest in manifests for line in manifest.staged}
    if by_key.keys() != {batch.key for batch in batches}:
        raise Unreachable(
            f"the Spark job returned {len(by_key)} of {counted(len(batches), 'shard')}. The next wave begins at the "
            "checkpoints in the lease rows"
        )
    loads = tuple(load for manifest in manifests for load in manifest.loads)
    return Manifest(tuple(by_key[batch.key] for batch in batches), (), loads)


def _work(
    parts: Sequence[Sequence[ClaimedShard]],
    shares: Sequence[BatchLimits],
    pages: Pages,
    rows: OneRow,
    spec: DeliverySpec,
    threads: int,
) -> Work:
    def work(number: int, _now: Now) -> bytes:
        # Imports within the function run on Spark's worker, from the shipped zip.
        from headrace.pipeline.lake.staging.host_load import host_gauge
        from headrace.pipeline.processors.application.task import deliver_batches

        done = deliver_batches(
            parts[number],
            pages,
            rows,
            spec,
            limits=shares[number],
            threads=threads,
            gauge=host_gauge(),
        )
        return encode(done)

    return work
