"""A process that parses new records, those in quarantine, or those of the newest window, and that SIGKILL ends at a named place.

python -m tests.typed.parsing_process FOLDER wave|unique|latest|redrive|replace PLACE VERSION python|spark

unique: a wave of a target that lands each event once, by its id. latest: one of a target that keeps the latest row of each id.
"""

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.settings.blocks.parse import ParseSettings, UniqueSettings
from headrace.pipeline.typed.context import BatchContext
from headrace.pipeline.typed.quarantine.redrive import Redriving
from headrace.pipeline.typed.quarantine.spark import SparkRedriver
from headrace.pipeline.typed.spark.frames import Frames
from headrace.pipeline.typed.wave import Parsing
from headrace.pipeline.windows.replace import Replacing
from tests.killed import Cut, a_session
from tests.typed.latest.beds import LatestBed
from tests.typed.parsings import Bed, good, with_ports
from tests.windows.replacements import ReplaceBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = ("planned", "staged", "deciding", "decided", "committed", "settling", "settled")
"""deciding, decided: just before and after the catalog takes the typed table's commit. settling, settled: the same of the quarantine table."""
WRONG = b'{"id": "two", "name": "n2"}'
"""Its id is no number: a schema without the column parses it."""


def bed_of(folder: Path, version: str) -> ReplaceBed:
    """Version 1 can't parse `WRONG`, version 2 can, and version 3 gives all records that it can't parse another reason."""
    bed = ReplaceBed(folder)
    bed.settings = replace(bed.settings, version=version)
    bed.parser.reason = f"bad for version {version}"
    bed.parser.fixes = {WRONG: good(2)} if version == "2" else {WRONG: b"{"}
    if version == "2":
        bed.settings = replace(bed.settings, schema="name STRING")
    return bed


def once(settings: ParseSettings) -> ParseSettings:
    return replace(settings, unique=UniqueSettings(by="id", within=timedelta(hours=1)))


def run(folder: str, kind: str, place: str, version: str, engine: str) -> None:
    cut = Cut(place)
    bed = LatestBed(Path(folder)) if kind == "latest" else bed_of(Path(folder), version)
    if kind == "unique":
        bed.settings = once(bed.settings)
    duty: Parsing | Redriving | Replacing
    if isinstance(bed, ReplaceBed) and kind == "replace":
        duty = bed.replacing(bed.windowing().windows.all()[-1].window)
    else:
        duty = bed.redriving() if kind == "redrive" else bed.parsing()
    with a_session(engine) as session:
        duty = duty if session is None else _on_spark(bed, duty, session)
        duty = replace(duty, on_step=cut.at)
        cut.around_next_commit(duty.ports.table.catalog, before="deciding", after="decided")  # type: ignore[attr-defined]
        quarantine = duty.settling.quarantine.catalog  # type: ignore[attr-defined]
        cut.around_next_commit(quarantine, before="settling", after="settled")
        for done in duty.portions() if isinstance(duty, Redriving) else duty.waves():
            print(done, flush=True)


def _on_spark(
    bed: Bed, duty: Parsing | Redriving | Replacing, session: "SparkSession"
) -> Parsing | Redriving | Replacing:
    parser = SparkRedriver(
        session=lambda _: session,
        frames=Frames(bed.settings, BatchContext("orders", bed.settings.version, duty.run)),
        source=bed.lake.handle(),
        table=bed.typed(),
        quarantine=bed.quarantine(),
        tasks=2,
    )
    if isinstance(duty, Parsing):
        return with_ports(duty, parser=parser)
    redriver = replace(parser, source=bed.quarantine())
    if isinstance(duty, Redriving):
        return with_ports(duty, redriver=redriver)
    typed = replace(duty.ports.typed, leaver=replace(parser, source=bed.typed()))
    return replace(duty, ports=replace(duty.ports, parser=parser, redriver=redriver, typed=typed))


if __name__ == "__main__":
    run(*sys.argv[1:])
