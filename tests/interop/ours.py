"""One of our workers as a process: the real duties on the system's clock, real DynamoDB and Kinesis clients, a real
Iceberg table on disk. Only Dagster and Spark are left out: threads tick, and a run stages in this process.

    python -m tests.interop.ours '{"worker": "h1", "app": ..., "stream": ..., "endpoint": ..., "home": ...}'

It tells its events as the Java worker does. SIGTERM is a clean stop: it gives its leases up and ends.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

from assets.consumption import Parts
from pipeline.clock import SystemClock, SystemIds
from pipeline.core.batch import Batch, Limits, Manifest
from pipeline.core.lease import Lease
from pipeline.core.stream import StreamId
from pipeline.duties.leader_tick import LeaderDuty, LeaderMemory
from pipeline.duties.taking import Taking
from pipeline.duties.wave import Arrow, WaveReport
from pipeline.duties.worker_tick import WorkerDuty, WorkerMemory, WorkerReport
from pipeline.errors import HeadraceError
from pipeline.lake.stage_task import stage_batches
from pipeline.memory.runs import MemoryRuns
from pipeline.ports import Pages, Stage, StagingSpec
from pipeline.settings import (
    AwsSettings,
    CoordinationSettings,
    LandingSettings,
    Settings,
    StreamSettings,
    TimeSettings,
    WaveSettings,
    WorkerSettings,
)
from pipeline.settings_choices import Heartbeat, Layout, Mode
from resources.beating import beating
from resources.lake import LakeResource
from resources.lease_tables import LeaseTablesResource
from resources.spark import SparkResource
from resources.stream import StreamResource

log = logging.getLogger("ours")


def settings_of(given: dict[str, Any]) -> Settings:
    """What a deployment beside a KCL fleet would have in its headrace.yaml."""
    times = TimeSettings(
        lease_duration=timedelta(seconds=given["failover"]),
        leader_lock=timedelta(seconds=120),  # KCL's, whose fleet it joins
        linger=timedelta(seconds=30),
        idle=timedelta(seconds=5),
        probe=timedelta(seconds=5),
        dwell=timedelta(seconds=given.get("dwell", 60)),
    )
    return Settings(
        application=given["app"],
        streams=(StreamSettings(name=given["stream"]),),
        workers=(WorkerSettings(id=given["worker"]),),
        coordination=CoordinationSettings() if given.get("alone") else _beside_kcl(given),
        landing=LandingSettings(home=given["home"]),
        aws=AwsSettings(region="us-east-1", endpoint=given["endpoint"]),
        wave=WaveSettings(every=timedelta(seconds=1), seconds=timedelta(seconds=10)),
        times=times,
    )


def _beside_kcl(given: dict[str, Any]) -> CoordinationSettings:
    return CoordinationSettings(
        mode=Mode(given.get("mode", "own")),
        heartbeat=Heartbeat.LEASE,
        layout=Layout(given.get("layout", "auto")),
        kcl_failover=timedelta(seconds=given["failover"]),
        allow_foreign_checkpoints=True,
    )


@dataclass(frozen=True, slots=True)
class InThisProcess:
    """The Stage port without Spark: what one of its tasks does."""

    pages: Pages

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: Limits) -> Manifest:
        return stage_batches(batches, self.pages, spec=spec, limits=limits, threads=8)


class NoSpark:
    """What a run asks Spark's resource for."""

    def stage(self, _worker_id: str, pages: Pages) -> Stage:
        return InThisProcess(pages)


def tell(event: str, worker: str, shard: str, *more: object) -> None:
    print(round(time.time() * 1000), event, worker, shard, *more, sep="\t", flush=True)


@dataclass
class OurWorker:
    settings: Settings
    over: threading.Event = field(default_factory=threading.Event)
    """The process is to end."""

    def __post_init__(self) -> None:
        self.me = self.settings.workers[0].id
        self.clock, self.ids = SystemClock(), SystemIds()
        self.tables = LeaseTablesResource.of(self.settings)
        self.stream = StreamResource.of(self.settings)
        self.lake = LakeResource.of(self.settings)
        self.source = self.stream.source()
        self.runs = MemoryRuns(self.clock)
        self.parts = Parts(
            settings=self.settings,
            lease_tables=self.tables,
            stream=self.stream,
            lake=self.lake,
            spark=cast("SparkResource", NoSpark()),
            runs=self.runs,
        )
        self.instance = self.ids.fresh()
        self.held: frozenset[str] = frozenset()
        self.run: threading.Thread | None = None

    # -- the leader's sensor --------------------------------------------------------------------------------

    def lead(self) -> None:
        duty = LeaderDuty(
            leader_id=self.me,
            settings=self.settings,
            tables=self.tables.tables(),
            leases=self.tables.leases(),
            workers=self.tables.workers(),
            lock=self.tables.lock(),
            source=self.source,
            table=self.lake.landing_table("leader", self.source),
            clock=self.clock,
            ids=self.ids,
        )
        memory, led = LeaderMemory(), False
        times = self.settings.times
        while not self.over.is_set():
            try:
                with beating(duty.beat_lock, times.leader_lock / 4, at_most=times.leader_deadline):
                    report = duty.tick(memory)
            except HeadraceError as error:
                log.warning("leader: %s", error)
            else:
                memory = report.memory
                if report.leads is not led:
                    tell("leads" if report.leads else "follows", self.me, "-")
                led = report.leads
                log.info("%s", report)
            self.over.wait(times.leader_tick.total_seconds())
        duty.release()

    # -- the worker's sensor --------------------------------------------------------------------------------

    def work(self) -> None:
        duty = WorkerDuty(
            worker_id=self.me,
            instance=self.instance,
            leases=self.tables.leases(),
            workers=self.tables.workers(),
            source=self.source,
            runs=self.runs,
            clock=self.clock,
            times=self.settings.times,
            lock=self.tables.lock(),
            heartbeat=self.settings.coordination.heartbeat,
            taking=self._taking(),
            joined=self.settings.is_shared,
            stream=self._facts,
        )
        memory = WorkerMemory()
        while not self.over.is_set():
            try:
                report = duty.tick(memory)
            except HeadraceError as error:
                log.warning("worker: %s", error)
            else:
                memory = report.memory
                self._note(memory.held)
                log.info("%s", report)
                self._start_if_due(report)
                if ": stopped;" in str(report):
                    self.over.set()
            self.over.wait(self.settings.times.worker_tick.total_seconds())

    def _facts(self, _lease: Lease) -> tuple[StreamId, timedelta]:
        facts = self.source.describe(self.settings.streams[0].name)
        return facts.stream, facts.retention

    def _taking(self) -> Taking | None:
        if self.settings.coordination.mode is not Mode.KCL_2:
            return None
        return Taking(
            me=self.me,
            leases=self.tables.leases(),
            clock=self.clock,
            ids=self.ids,
            settings=self.settings,
            tables=self.tables.tables(),
            workers=self.tables.workers(),
        )

    def _note(self, held: frozenset[str]) -> None:
        for key in sorted(self.held - held):
            tell("leaseLost", self.me, key)
        self.held &= held  # what is new counts from the first claim on

    def _start_if_due(self, report: WorkerReport) -> None:
        if not report.due or (self.run is not None and self.run.is_alive()):
            return
        run_id = f"run-{self.ids.fresh()[:8]}"
        self.runs.launch(run_id, self.me)
        self.run = threading.Thread(target=self._read, args=(run_id, report), daemon=True)
        self.run.start()

    # -- a run ----------------------------------------------------------------------------------------------

    def _read(self, run_id: str, report: WorkerReport) -> None:
        self.runs.start(run_id)
        failed: tuple[str, ...] = ()
        over, later = frozenset(report.over), frozenset(report.later)
        try:
            with self.parts.reading(
                self.me, run_id, on_wave=self._on_wave, on_arrow=self._on_arrow, over=over, later=later
            ) as run:
                run.all_that_is_due()
                failed = tuple(run.consumption.failed)
        except HeadraceError as error:
            log.warning("run %s: %s", run_id, error)
        finally:
            self.runs.fail(run_id, failed)

    def _on_arrow(self, arrow: Arrow, keys: tuple[str, ...]) -> None:
        if arrow is Arrow.CLAIMED:
            for key in sorted(set(keys) - self.held):
                tell("initialize", self.me, key)
            self.held |= set(keys)

    def _on_wave(self, report: WaveReport) -> None:
        for landed in report.landed:
            tell("landed", self.me, landed.lease_key, landed.staged.rows)
            if landed.staged.upto.ended:
                tell("shardEnded", self.me, landed.lease_key)
                self.held -= {landed.lease_key}
        for problem in report.problems:
            log.info("%s: %s", problem.lease_key, problem.why)

    def stop(self, *_: object) -> None:
        tell("stopping", self.me, "-")
        self.tables.workers().set_stopping(self.me, stopping=True)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s.%(msecs)03d %(message)s", datefmt="%H:%M:%S")
    for library in ("botocore", "pyiceberg"):
        logging.getLogger(library).setLevel(logging.WARNING)
    worker = OurWorker(settings_of(json.loads(sys.argv[1])))
    tell("started", worker.me, "-")
    signal.signal(signal.SIGTERM, worker.stop)
    duties: list[Callable[[], None]] = [worker.work]
    if worker.settings.coordination.mode is Mode.OWN:
        duties.append(worker.lead)
    else:
        worker.tables.tables().ensure()  # KCL 2.x finds the shards; nobody gives leases out
    threads = [threading.Thread(target=duty, daemon=True) for duty in duties]
    for thread in threads:
        thread.start()
    # It mustn't outlive whoever started it.
    threading.Thread(target=_end_with_input, args=(worker.over,), daemon=True).start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)  # signals are handled between two looks
    if worker.run is not None:
        worker.run.join(30)
    tell("ended", worker.me, "-")


def _end_with_input(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


if __name__ == "__main__":
    main()
