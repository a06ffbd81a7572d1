"""A process that runs the newest window, and that SIGKILL ends at a named place.

python -m tests.windows.window_process FOLDER unpack|copy|process PLACE python|spark
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.lake.spark.tasks import SparkTasks
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.copier import TaskCopier
from headrace.pipeline.windows.copy import Replaying
from headrace.pipeline.windows.process import WindowProcessing
from headrace.pipeline.windows.unpack import Unpacking
from headrace.pipeline.windows.unpacker import TaskUnpacker
from tests.killed import Cut, a_session
from tests.windows.processings import WindowProcessorBed
from tests.windows.unpackings import UnpackBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = ("planned", "staged", "deciding", "decided", "committed")
"""deciding, decided: just before and after the catalog takes the commit."""


def run(folder: str, kind: str, place: str, engine: str) -> None:
    if kind == "process":
        process(Path(folder), Cut(place))
        return
    bed, cut = UnpackBed(Path(folder)), Cut(place)
    window = bed.windowing().windows.all()[-1].window
    duty: Unpacking | Replaying = bed.unpacking(window) if kind == "unpack" else bed.replaying(window)
    with a_session(engine) as session:
        duty = duty if session is None else _on_spark(bed, duty, session)
        duty = replace(duty, on_step=lambda arrow: _at(arrow, cut, duty))
        for done in duty.waves():
            print(done, flush=True)


def process(folder: Path, cut: Cut) -> None:
    """Let a processor work on the newest window, in small waves."""
    bed = WindowProcessorBed(folder)
    window = bed.wiring().windowing("a test").windows.all()[-1].window
    duty = bed.processing_of(window, limits=WaveLimits(2, 2**30))
    for done in replace(duty, on_step=lambda arrow: _at(arrow, cut, duty)).waves():
        print(done, flush=True)


def _at(arrow: str, cut: Cut, duty: Unpacking | Replaying | WindowProcessing) -> None:
    cut.at(arrow)
    if arrow == "staged":
        # From here on, the next commit is that of the wave's rows.
        cut.around_next_commit(duty.ports.table.catalog, before="deciding", after="decided")  # type: ignore[attr-defined]


def _on_spark(bed: UnpackBed, duty: Unpacking | Replaying, session: "SparkSession") -> Unpacking | Replaying:
    lake = bed.lake.handle()
    if isinstance(duty, Unpacking):
        unpacker = TaskUnpacker(tasks=SparkTasks(lambda _: session, 2), table=lake)
        return replace(duty, ports=replace(duty.ports, unpacker=unpacker))
    copier = TaskCopier(tasks=SparkTasks(lambda _: session, 2), source=lake, table=bed.own_table(duty.id))
    return replace(duty, ports=replace(duty.ports, copier=copier))


if __name__ == "__main__":
    run(*sys.argv[1:])
