"""A process that works as a run of Dagster does, until somebody terminates it: python -m tests.metrics.terminated_process FILE."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from dagster._utils.interrupts import capture_interrupts, raise_interrupts_as

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.metering import Metering
from headrace.pipeline.metrics.ports import Refusal
from headrace.pipeline.metrics.publishing import Publishing
from headrace.pipeline.metrics.series import Level
from headrace.pipeline.metrics.statistics import Datum
from headrace.pipeline.settings.model import Settings


class Interrupted(BaseException):
    """As Dagster's exception for a run that is terminated."""


class FileSink:
    def __init__(self, file: Path) -> None:
        self._file = file

    def send(self, data: Sequence[Datum]) -> Refusal | None:
        self._file.write_text(json.dumps({datum.series.name: datum.statistics.total for datum in data}))
        return None


def main(file: Path) -> None:
    gathering = Gathering(level=Level.DETAILED, dimensions=(), most=100)
    publishing = Publishing(gathering, lambda: FileSink(file).send, every=timedelta(minutes=5))
    metering = Metering(Settings(application="app"), SystemClock(), publishing)
    # As Dagster does around each run (`raise_execution_interrupts`).
    with capture_interrupts(), raise_interrupts_as(Interrupted), metering.running():
        gathering.add(kcl.RECORDS_PROCESSED, 7)
        print("at work", flush=True)
        while True:
            signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
