"""A process that runs the newest window, and that SIGKILL ends at a named place.

python -m tests.lake.window_process FOLDER unpack|copy PLACE python|spark
"""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from pipeline.duties.replaying import Replaying
from pipeline.duties.unpacking import Unpacking
from pipeline.lake.session import spark_session
from pipeline.lake.unpack import SparkUnpacker
from pipeline.lake.window_copy import SparkCopier
from pipeline.settings.model import SparkSettings
from tests.lake.tables import after_next_swap, before_next_swap
from tests.lake.unpackings import UnpackBed

PLACES = ("planned", "staged", "deciding", "decided", "committed")
"""deciding, decided: just before and after the catalog takes the commit."""
NOWHERE = "nowhere"


def run(folder: str, kind: str, place: str, engine: str) -> None:
    bed = UnpackBed(Path(folder))
    window = bed.windowing().windows.all()[-1].window
    duty: Unpacking | Replaying = bed.unpacking(window) if kind == "unpack" else bed.replaying(window)
    duty = _on_spark(bed, duty) if engine == "spark" else duty
    duty = replace(duty, on_arrow=lambda arrow: _at(arrow, place, duty))
    for done in duty.waves():
        print(done, flush=True)


def _at(arrow: str, place: str, duty: Unpacking | Replaying) -> None:
    if arrow == place:
        _die()
    # From here on, the next commit is that of the wave's rows.
    if arrow == "staged" and place == "deciding":
        before_next_swap(duty.ports.table.catalog, _die)  # type: ignore[attr-defined]
    if arrow == "staged" and place == "decided":
        after_next_swap(duty.ports.table.catalog, _die)  # type: ignore[attr-defined]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _on_spark(bed: UnpackBed, duty: Unpacking | Replaying) -> Unpacking | Replaying:
    session, lake = spark_session(SparkSettings(), "headrace-test"), bed.lake.handle()
    if isinstance(duty, Unpacking):
        unpacker = SparkUnpacker(session=lambda _: session, table=lake, cores=2)
        return replace(duty, ports=replace(duty.ports, unpacker=unpacker))
    copier = SparkCopier(session=lambda _: session, source=lake, table=bed.own_table(duty.id), cores=2)
    return replace(duty, ports=replace(duty.ports, copier=copier))


if __name__ == "__main__":
    run(*sys.argv[1:])
