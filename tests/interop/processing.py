"""A worker of Headrace whose processor is an application of its own, as a process: as `ours`, without a lake table. The
processor's own processes note what they get in the file to which this process prints its events.

    python -m tests.interop.processing '{"worker": "h1", "app": ..., "stream": ..., "endpoint": ..., "home": ...}'
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from headrace.pipeline.app.application_adapters import ApplicationAdapters
from headrace.pipeline.app.application_wiring import ApplicationWiring
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.duties.waves.report import WaveReport, WaveStep
from headrace.pipeline.ports.staging import OnWaiting, Stage
from headrace.pipeline.processors.application.stage import DeliveryStage
from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import ProcessorMode
from headrace.pipeline.settings.processor_application import application_settings
from tests.interop import ours
from tests.memory.tasks import LocalTasks

EVENTS, WORKER = "INTEROP_EVENTS", "INTEROP_WORKER"
"""Environment variables of the processor's processes."""


class Telling:
    """A processor that tells what it gets as KCL's workers in Java do, and checkpoints each batch."""

    version = 3

    def tell(self, kind: str, *more: object) -> None:
        line = "\t".join(map(str, (round(time.time() * 1000), kind, os.environ[WORKER], self.shard, *more)))
        with Path(os.environ[EVENTS]).open("a") as file:
            file.write(f"{line}\n")

    def initialize(self, given: Any) -> None:
        self.shard = given.shard_id
        self.tell("initialize")

    def process_records(self, given: Any) -> None:
        for record in given.records:
            number, sub = record.sequence_number, record.sub_sequence_number
            self.tell("record", number, sub, record.binary_data.decode())
        given.checkpointer.checkpoint()
        self.tell("checkpoint")

    def lease_lost(self, _given: Any) -> None:
        self.tell("leaseLost")

    def shard_ended(self, given: Any) -> None:
        given.checkpointer.checkpoint()
        self.tell("shardEnded")

    def shutdown_requested(self, _given: Any) -> None:
        """Each batch is checkpointed."""


class _Open:
    def open(self, on_waiting: OnWaiting) -> None:
        """Nothing needs to start."""


class _WithoutSpark(ApplicationAdapters):
    def stage(self, worker_id: str) -> Stage:
        return DeliveryStage(
            settings=self._processor,
            multi=False,
            worker=worker_id,
            spark=_Open(),  # type: ignore[arg-type] # it is only opened
            tasks=LocalTasks(self.clock),
            threads=8,
            rows=self.leases(),
            pages=self.pages,
            task_rows=self._task_rows,
            lease_table=self._lease_table,
        )


class ProcessorWorker(ours.OurWorker):
    def processor(self) -> ProcessorSettings:
        return ProcessorSettings(
            name="telling",
            mode=ProcessorMode.APPLICATION,
            application=self.settings.application,
            failover=self.settings.kcl.failover,
            beat=self.settings.kcl.beat,
            leases=self.settings.kcl.mode,
            callable="tests.interop.processing:Telling",
            written=Written(),
        )

    def __post_init__(self) -> None:
        processor = self.processor()
        self.settings = application_settings(self.settings, processor)
        super().__post_init__()
        self.ports = _WithoutSpark(self.settings, processor, SystemClock())  # type: ignore[assignment]
        self.wiring = ApplicationWiring(self.settings, self.ports)

    def _on_step(self, step: WaveStep, keys: tuple[str, ...]) -> None:
        """The processor tells by itself."""

    def _on_wave(self, report: WaveReport) -> None:
        for problem in report.problems:
            ours.log.info("%s: %s", problem.lease_key, problem.why)

    def _note(self, held: frozenset[str]) -> None:
        """The processor hears of lost leases itself."""


def main() -> None:
    import json
    import sys

    given = json.loads(sys.argv[1])
    os.environ |= {EVENTS: str(Path("/proc/self/fd/1").readlink()), WORKER: given["worker"]}
    ours.main(ProcessorWorker)


if __name__ == "__main__":
    main()
