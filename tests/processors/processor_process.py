"""A process that lets a processor work, and that SIGKILL ends at a named place.

python -m tests.processors.processor_process FOLDER PLACE [redrive]
"""

import sys
from dataclasses import replace
from pathlib import Path

from headrace.pipeline.processors.redrive import ProcessorRedriving
from tests.killed import Cut
from tests.processors.beds import ProcessorBed

PLACES = ("planned", "staged", "deciding", "decided", "committed", "settling", "settled")
"""deciding, decided: just before and after the catalog takes the commit of the processor's table. settling, settled: the
same of its quarantine table."""


def bed_of(folder: Path) -> ProcessorBed:
    from headrace.pipeline.settings.choices import OnProcessorError

    return ProcessorBed(folder, callable="counting:Words", records=2, on_error=OnProcessorError.QUARANTINE)


def run(folder: str, place: str, kind: str = "process") -> None:
    bed, cut = bed_of(Path(folder)), Cut(place)
    if kind == "redrive":
        bed.settings = replace(bed.settings, callable="counting:Mended")
    processing = replace(bed.redriving() if kind == "redrive" else bed.processing(), on_step=cut.at)
    cut.around_next_commit(processing.ports.table.catalog, before="deciding", after="decided")  # type: ignore[attr-defined]
    quarantine = processing.settling.quarantine.catalog  # type: ignore[attr-defined]
    cut.around_next_commit(quarantine, before="settling", after="settled")
    for wave in processing.portions() if isinstance(processing, ProcessorRedriving) else processing.waves():
        print(wave, flush=True)


if __name__ == "__main__":
    run(*sys.argv[1:])
