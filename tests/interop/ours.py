"""One worker of Headrace as a process: the real duties on the system's clock, real DynamoDB and Kinesis clients,
and a real Iceberg table on disk. Only Dagster and Spark are left out: threads tick, and a run stages in this
process.

    python -m tests.interop.ours '{"worker": "h1", "app": ..., "stream": ..., "endpoint": ..., "home": ...}'

It prints its events as the Java worker does. On SIGTERM it gives up its leases and ends.
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
from typing import Any

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.app.wiring import Hints, Wiring
from headrace.pipeline.clock import SystemClock, SystemIds
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.duties.fleet.sensor_turn import RunAsk
from headrace.pipeline.duties.waves.report import WaveReport, WaveStep
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.staging import OnWaiting, Stage, StagingSpec
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Beat, Heartbeat, Layout, Mode, Retrieval
from headrace.pipeline.settings.model import (
    LandingSettings,
    Settings,
    StreamSettings,
    TimeSettings,
    WaveSettings,
    WorkerSettings,
)
from tests.memory.runs import MemoryRuns

log = logging.getLogger("ours")


def settings_of(given: dict[str, Any]) -> Settings:
    """The settings of a deployment beside a KCL fleet."""
    times = TimeSettings(
        lease_duration=timedelta(seconds=max(20.0, given["failover"])),
        linger=timedelta(seconds=30),
        idle=timedelta(seconds=5),
        probe=timedelta(seconds=5),
        dwell=timedelta(seconds=given.get("dwell", 60)),
    )
    return Settings(
        application=given["app"],
        streams=(
            StreamSettings(
                name=given["stream"],
                retrieval=Retrieval(given.get("retrieval", "polling")),
                consumer=given.get("consumer"),
            ),
        ),
        workers=(WorkerSettings(id=given["worker"]),),
        kcl=KclSettings() if given.get("alone") else _beside_kcl(given),
        landing=LandingSettings(home=given["home"]),
        aws=AwsSettings(region=given.get("region", "us-east-1"), endpoint=given["endpoint"]),
        wave=WaveSettings(every=timedelta(seconds=1), seconds=timedelta(seconds=10)),
        times=times,
    )


def _beside_kcl(given: dict[str, Any]) -> KclSettings:
    return KclSettings(
        beat=Beat(given.get("beat", "ticks")),
        mode=Mode(given.get("mode", "own")),
        heartbeat=Heartbeat.LEASE,
        layout=Layout(given.get("layout", "auto")),
        failover=timedelta(seconds=given["failover"]),
        allow_foreign_checkpoints=True,
    )


@dataclass(frozen=True, slots=True)
class InThisProcess:
    """The stage port without Spark: it does what a Spark task does."""

    pages: Pages

    def open(self, on_waiting: OnWaiting) -> None:
        """Nothing needs to start."""

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        return stage_batches(batches, self.pages, spec=spec, limits=limits, threads=8)


class WithoutSpark(Adapters):
    """The product's own ports on the stand-in, except Spark."""

    def stage(self, worker_id: str) -> Stage:
        return InThisProcess(self.pages())


def tell(event: str, worker: str, shard: str, *more: object) -> None:
    # One text: `print` writes its arguments one by one, and two threads tell at the same time.
    line = "\t".join(map(str, (round(time.time() * 1000), event, worker, shard, *more)))
    print(f"{line}\n", end="", flush=True)


@dataclass
class OurWorker:
    """Two threads tick as Dagster's sensors do, by the product's own turns. A third thread is the run."""

    settings: Settings
    first_run_after: timedelta = timedelta(0)
    """How long the process of the first run takes to start, as with a slow Spark."""
    pace: float | None = None
    """Seconds between two ticks where they are slower than the settings say, as on a busy host."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the process is to end."""

    def __post_init__(self) -> None:
        self.me = self.settings.workers[0].id
        self.ids = SystemIds()
        self.ports = WithoutSpark(self.settings)
        self.wiring = Wiring(self.settings, self.ports)
        self.runs = MemoryRuns(SystemClock())
        self.instance = self.ids.fresh()
        self.held: frozenset[str] = frozenset()
        self.run: threading.Thread | None = None

    # -- the sensors ----------------------------------------------------------------------------------------

    def lead(self) -> None:
        cursor, every = None, self.pace or self.settings.times.leader_tick.total_seconds()
        while not self.over.wait(every):
            cursor = self._lead_once(cursor)
        # this tick sees that all workers of the deployment are stopping, and releases the lock
        self._lead_once(cursor)

    def _lead_once(self, cursor: str | None) -> str | None:
        try:
            turn = self.wiring.leader_turn(cursor)
        except HeadraceError as error:
            log.warning("leader: %s", error)
            return cursor
        log.info("%s", turn.sentence)
        return turn.cursor

    def work(self) -> None:
        cursor, every = None, self.pace or self.settings.times.worker_tick.total_seconds()
        while not self.over.wait(every):
            try:
                turn = self.wiring.worker_turn(self.me, cursor, instance=self.instance, runs=self.runs)
            except HeadraceError as error:
                log.warning("worker: %s", error)
                continue
            cursor = turn.cursor
            log.info("%s", turn.sentence)
            self._note(frozenset(turn.partitions))
            for run_id in turn.dead_runs:
                self.runs.end(run_id)
            if turn.ask is not None:
                self._start(turn.ask)
            if ": stopped;" in turn.sentence:
                self.over.set()

    def _note(self, held: frozenset[str]) -> None:
        for key in sorted(self.held - held):
            tell("leaseLost", self.me, key)
        self.held &= held  # a shard that was lost counts as begun anew at its next claim

    def _start(self, ask: RunAsk) -> None:
        if self.run is not None and self.run.is_alive():
            return
        run_id = f"run-{self.ids.fresh()[:8]}"
        self.runs.launch(run_id, self.me)
        self.run = threading.Thread(target=self._read, args=(run_id, ask), daemon=True)
        self.run.start()

    # -- a run ----------------------------------------------------------------------------------------------

    def _read(self, run_id: str, ask: RunAsk) -> None:
        self.over.wait(self.first_run_after.total_seconds())
        self.first_run_after = timedelta(0)
        self.runs.start(run_id)
        hints = Hints(
            dead_claims=frozenset(ask.dead_claims),
            left_alone=frozenset(ask.left_alone),
            due=frozenset(ask.due),
            failing=frozenset((*ask.recovering, *ask.left_alone)),
            retry_after=ask.retry_after,
        )
        reading = self.wiring.reading(
            run_id,
            self.runs,
            on_wave=self._on_wave,
            on_waiting=log.info,
            on_step=self._on_step,
            hints=hints,
        )
        ending = reading.everything_due(self.me)
        if ending.error is not None:
            log.warning("run %s: %s", run_id, ending.error)
        self.runs.fail(run_id, tuple(ending.failed))

    def _on_step(self, step: WaveStep, keys: tuple[str, ...]) -> None:
        if step is WaveStep.CLAIMED:
            for key in sorted(set(keys) - self.held):
                tell("initialize", self.me, key)
            # `overlaps.py` looks for the checkpoint of a claim up to the next `initialize`, so that comes first.
            for key in sorted(keys):
                tell("claimed", self.me, key)
            self.held |= set(keys)

    def _on_wave(self, report: WaveReport) -> None:
        troubled = {problem.lease_key for problem in report.problems}
        for landed in report.landed:
            if landed.staged.rows:
                tell("landed", self.me, landed.lease_key, landed.staged.rows)
            if landed.lease_key not in troubled:  # after a problem the row may lack the checkpoint
                tell("checkpoint", self.me, landed.lease_key)
            if landed.staged.upto.ended:
                tell("shardEnded", self.me, landed.lease_key)
                self.held -= {landed.lease_key}
        for problem in report.problems:
            log.info("%s: %s", problem.lease_key, problem.why)

    def stop(self, *_: object) -> None:
        tell("stopping", self.me, "-")
        self.ports.workers().set_stopping(self.me, stopping=True)


def main(kind: type[OurWorker] = OurWorker) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s.%(msecs)03d %(message)s", datefmt="%H:%M:%S")
    for library in ("botocore", "pyiceberg"):
        logging.getLogger(library).setLevel(logging.WARNING)
    given = json.loads(sys.argv[1])
    worker = kind(settings_of(given), timedelta(seconds=given.get("first_run_after", 0)), given.get("pace"))
    tell("started", worker.me, "-")
    signal.signal(signal.SIGTERM, worker.stop)
    duties: list[Callable[[], None]] = [worker.work]
    if worker.settings.kcl.mode is not Mode.KCL_2:
        duties.append(worker.lead)
    else:
        worker.ports.tables().ensure()  # KCL 2.x finds the shards, and no leader assigns leases
    threads = [threading.Thread(target=duty, daemon=True) for duty in duties]
    for thread in threads:
        thread.start()
    # this process must not go on after the process that started it
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
