"""The `Stage` port for a processor's application: one Spark job reads all shards of a wave and hands their
records to the processor. No file is written.

    driver: claimed rows, reader ─► task: page ─► process of the processor ─► checkpoint in the row ─► a report

The checkpoint in its row is all that is known of a shard. Once the checkpoint has passed lost records, no later
wave can find out that they were lost. So a job stops reading a shard before the first record after a loss, the
loss is reported, and another job goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, lease_key
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, Unreachable
from headrace.pipeline.lake.staging.stage import pack, shares_of, tasks_within
from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.staging import OnWaiting, Stage, StagingSpec
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work
from headrace.pipeline.processors.application.claimed_rows import ClaimedRows
from headrace.pipeline.processors.application.kept import IDLE
from headrace.pipeline.processors.application.task import ClaimedShard, Delivering, DeliverySpec
from headrace.pipeline.processors.code import ProcessorCode
from headrace.pipeline.settings.blocks.processors import ProcessorSettings

_log = logging.getLogger("headrace")

OpenLeaseTable = Callable[[], LeaseStore]
"""Opens the application's lease table in the process of a task. It is pickled into the task, with the driver's keys of that
moment."""


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
    task_rows: Callable[[], OpenLeaseTable]
    """What both answer is pickled into the tasks, with the keys of their moment."""
    lease_table: str
    """The application's lease table, and where it is: the same text in each run. By it the processes that a host keeps are told
    apart from those of other applications."""
    keeps: bool = True
    """Whether processes stay from wave to wave, as long as the run keeps their shards."""
    _code: ProcessorCode = field(init=False)
    """As it was when the run began: a wave takes a second, and the modules would be read and parsed with each."""
    _kept: set[ShardKey] = field(default_factory=set)
    """The shards whose processes stay."""
    _told: set[str] = field(default_factory=set)
    """The troubles at the end of processes that were told."""
    _losses: dict[ShardKey, Checkpoint] = field(default_factory=dict)
    """The shards of which a loss of records was told, with the checkpoint behind which the records were lost."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_code", ProcessorCode(self.settings))

    def open(self, on_waiting: OnWaiting) -> None:
        self._code.check()
        self.spark.open(on_waiting)

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        if not batches:
            return Manifest(())
        careful = [replace(batch, goes_on=batch.goes_on and self._is_loss_told(batch)) for batch in batches]
        manifest = self._in_one_job(careful, limits)
        by_key = {batch.key: batch for batch in batches}
        # What a shard has got before its loss is checkpointed or comes again: the next wave begins at the row.
        lost = {line.key: line for line in manifest.staged if line.data_loss and by_key[line.key].goes_on}
        unread = [by_key[key] for key, line in lost.items() if not (line.rows or line.moved)]
        for batch in unread:
            self._tell_loss(batch)
        again = self._in_one_job(unread, limits) if unread else Manifest(())
        lines = {key: replace(line, error=None, data_loss=False) for key, line in lost.items()}
        lines |= {line.key: line for line in again.staged}
        staged = tuple(lines.get(line.key, line) for line in manifest.staged)
        return Manifest(staged, (), (*manifest.loads, *again.loads))

    def _is_loss_told(self, batch: Batch) -> bool:
        return self._losses.get(batch.key) == self._claimed(batch).lease.checkpoint

    def _tell_loss(self, batch: Batch) -> None:
        """Tell of a loss before the processor gets a later record: a run that dies after that leaves nothing by which another one
        could tell."""
        if not self._is_loss_told(batch):
            self._losses[batch.key] = self._claimed(batch).lease.checkpoint
            _log.warning(
                "%s: behind the checkpoint %s records may have left the stream unread. on_data_loss: continue lets the "
                "processor %s go on with what the stream still has",
                batch.key,
                self._claimed(batch).lease.checkpoint,
                self.settings.name,
            )

    def _in_one_job(self, batches: Sequence[Batch], limits: BatchLimits) -> Manifest:
        most, threads = self._at_once
        packed = pack(batches, min(most, tasks_within(limits)))
        parts = [[self._claimed(batch) for batch in batches_of_task] for batches_of_task in packed]
        work = self._work(parts, shares_of(packed, limits), threads)
        if self.keeps:
            # Before the job: a job that fails may have left processes on some hosts, and `let_go`
            # has to look for them.
            self._kept.update(batch.key for batch in batches)
        reports = self._run(len(parts), work)
        return _joined([report.manifest for report in reports], batches)

    def _work(
        self, parts: Sequence[Sequence[ClaimedShard]], shares: Sequence[BatchLimits], threads: int
    ) -> Work:
        return _delivering(parts, shares, self.pages(), self.task_rows(), self._spec, threads)

    def let_go(self, keys: Collection[ShardKey]) -> None:
        """Called when the run releases these shards: their processes end, and may checkpoint before."""
        going = self._kept & set(keys)
        self._kept.difference_update(going)
        rows = {key: self.rows.claimed.get(lease_key(key, multi=self.multi)) for key in sorted(going)}
        shards = [ClaimedShard(_nothing_of(key), row) for key, row in rows.items() if row is not None]
        if not shards:
            return
        try:
            # One task on each core, because each host may have some of the processes.
            self._run(self.tasks.cores, _ending(shards, self.task_rows(), self._spec))
        except HeadraceError as error:
            self._tell_unended(len(shards), error)

    def _tell_unended(self, count: int, error: HeadraceError) -> None:
        # A release goes on all the same, and the next one may meet the same trouble: it is told once.
        if str(error) not in self._told:
            self._told.add(str(error))
            _log.warning(
                "the processes of %s couldn't be told to end (%s). They end by themselves after %g s without a wave and hear "
                "that the lease was lost; what they haven't checkpointed comes again",
                counted(count, "shard"),
                error,
                IDLE,
            )

    def _run(self, count: int, work: Work) -> list[Delivering]:
        reports = [decode(report, Delivering) for report in self.tasks.run(count, work, self._job)]
        for report in reports:
            for row in report.rows:
                # The tasks have written these rows themselves. Without the rows as they are now,
                # the run's next write would be refused as if somebody had taken them.
                self.rows.note_moved(row, has_rest=row.key in report.with_rest)
        return reports

    @property
    def _spec(self) -> DeliverySpec:
        code = self._code
        application = (self.settings.application or "") if self.keeps else ""
        return DeliverySpec(code.child, code.rules, self.worker, code.text(), application, self.lease_table)

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
            f"the Spark job that runs the processor {self.settings.name}",
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


def _nothing_of(key: ShardKey) -> Batch:
    return Batch(key, None, TRIM, key.stream.created, timedelta(0))


def _ending(shards: Sequence[ClaimedShard], open_rows: OpenLeaseTable, spec: DeliverySpec) -> Work:
    def work(_number: int, _now: Now) -> bytes:
        from headrace.pipeline.processors.application.task import end_kept

        return encode(end_kept(shards, open_rows(), spec))

    return work


def _delivering(
    parts: Sequence[Sequence[ClaimedShard]],
    shares: Sequence[BatchLimits],
    pages: Pages,
    open_rows: OpenLeaseTable,
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
            open_rows(),
            spec,
            limits=shares[number],
            threads=threads,
            gauge=host_gauge(),
        )
        return encode(done)

    return work
