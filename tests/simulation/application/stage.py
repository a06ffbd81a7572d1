"""The stage of a run that hands records to the processor: the product's own stage and the product's own work on a shard, one shard after
the other, because simulated processes have no threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.errors import Unreachable, WrongStream
from headrace.pipeline.lake.staging.stage_codec import encode
from headrace.pipeline.lake.staging.stage_read import Box
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.ports.tasks import Job, Now, Work
from headrace.pipeline.processors.application.delivery import Delivery
from headrace.pipeline.processors.application.row_checkpoints import ClaimedRow
from headrace.pipeline.processors.application.stage import DeliveryStage
from headrace.pipeline.processors.application.task import ClaimedShard, Delivering, _ShardWork
from headrace.pipeline.processors.values import TurnRules
from tests.processors.application.worlds import SourcePages
from tests.simulation.application.child import ApplicationChild, child_at_work
from tests.simulation.application.watch import ProcessorInstance

if TYPE_CHECKING:
    from tests.simulation.application.fleet import ApplicationFleet
    from tests.simulation.scheduler import Process


@dataclass(frozen=True, slots=True)
class SimulatedSpec:
    """In the place of a `DeliverySpec`."""

    fleet: ApplicationFleet
    process: Process
    worker: str
    application: str = ""

    def delivery(self, shard: ClaimedShard, rows: Any, _folder: str, clock: Any) -> Delivery:
        settings, truth, lease = self.fleet.processor, self.fleet.truth.shards[shard.batch.key], shard.lease

        fleet, claim = self.fleet, lease.run_claim or ""
        place = self.process.host.name, self.worker, lease.key

        def start() -> Any:
            instance = ProcessorInstance(truth, lease.key, claim, self.worker)
            child = ApplicationChild(fleet, self.process, instance, claim)
            return fleet.keeping.begun(place, child) if self.application else child_at_work(child)

        def meet() -> Any:
            return fleet.keeping.met(place, self.process, claim) if self.application else nullcontext()

        return Delivery(
            batch=shard.batch,
            row=ClaimedRow(rows, lease, self.worker),
            rules=TurnRules(on_error=settings.on_error, tries=settings.tries, records=settings.records),
            start=start,
            meet=meet,
            code=str(fleet.version),
            pause=clock.pause,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStage(DeliveryStage):
    fleet: ApplicationFleet
    process: Process

    def open(self, on_waiting: OnWaiting) -> None:
        """Spark is there at once: its slow start is tried where records are landed."""

    @property
    def _spec(self) -> Any:
        return SimulatedSpec(self.fleet, self.process, self.worker, "kept" if self.keeps else "")

    def _work(
        self, parts: Sequence[Sequence[ClaimedShard]], shares: Sequence[BatchLimits], _threads: int
    ) -> Work:
        def work(number: int, _now: Now) -> bytes:
            return encode(self._deliver(parts[number], shares[number]))

        return work

    def _deliver(self, shards: Sequence[ClaimedShard], limits: BatchLimits) -> Delivering:
        clock, stopping = self.process.host, Event()
        box, rows, pages, spec = Box(limits, clock), self.task_rows()(), self.pages(), self._spec
        works = [_ShardWork(shard, pages, rows, spec, "", clock) for shard in shards]
        for work in works:
            work.run(box, stopping, clock)
        return Delivering(
            Manifest(tuple(work.staged for work in works)),
            tuple(work.delivery.row.lease for work in works),
            frozenset(work.delivery.row.lease.key for work in works if work.delivery.has_rest),
        )


@dataclass(frozen=True, slots=True)
class TasksInTurn:
    """Spark's tasks, one after the other. Now and then a job fails after its tasks have worked."""

    fleet: ApplicationFleet
    process: Process
    cores: int = 2

    def run(self, count: int, work: Work, job: Job) -> list[bytes]:
        faults, rng = self.fleet.call_faults, self.fleet.rng
        self.fleet.sim.pause(0.1 + rng.random())
        if faults.occurs("hung"):
            faults.hang(self.process, "the tasks", rng.choice((30.0, 130.0)))
        reports = [work(number, self.process.host.now) for number in range(count)]
        if faults.occurs("lost"):
            faults.note_fault(self.process, "the tasks", "their reports are lost")
            raise Unreachable("the Spark job failed")
        return reports


@dataclass(frozen=True, slots=True)
class SimulatedPages:
    """Pages of the stream, whose aggregates are real ones."""

    fleet: ApplicationFleet

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        fleet, stream = self.fleet, batch.key.stream
        fleet.sim.pause(0.01 + 0.05 * fleet.rng.random())
        # The real reader proves that it reads this life of the stream.
        if (other := fleet.source.describe(stream.arn).stream) != stream:
            raise WrongStream(f"the task finds {other} and not {stream}; nothing was read")
        for page in SourcePages(fleet.source).pages(batch):
            yield page
            fleet.sim.pause(0.01 + 0.05 * fleet.rng.random())
