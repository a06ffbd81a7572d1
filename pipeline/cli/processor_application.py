"""`headrace processor` for a processor that is a KCL application of its own."""

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, Transient, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headrace.pipeline.duties.waves.report import WaveReport
    from headrace.pipeline.settings.blocks.processors import ProcessorSettings
    from headrace.pipeline.settings.model import Settings


@dataclass(slots=True)
class _Told:
    """Tells of each wave, and counts."""

    name: str
    say: "Callable[[str], None]"
    records: int = 0
    notes: list[str] = field(default_factory=list)

    def hear(self, report: "WaveReport") -> None:
        self.records += report.rows
        self.notes += report.notes
        self.say(
            f"{self.name}: {counted(report.rows, 'record')} of {counted(len(report.landed), 'shard')} processed"
        )
        tell_aside(*(f"{self.name}: {note}" for note in report.notes))
        tell_aside(
            *(f"{self.name}: {partition_of(problem.lease_key)}: {problem.why}" for problem in report.problems)
        )


def run_application(
    args: argparse.Namespace, settings: "Settings", processor: "ProcessorSettings"
) -> "dict[str, Any]":
    """Read the shards that are due, among those whose leases the workers of these settings own, and let the
    processor work on their records.
    """
    from headrace.pipeline.app.application_wiring import wire_application
    from headrace.pipeline.app.wiring import NoDagster

    wiring = wire_application(settings, processor)
    told = _Told(processor.name, tell_aside if args.json else tell)
    failed: dict[str, str] = {}
    try:
        own = {worker.id for worker in wiring.settings.workers}
        rows = wiring.leases().scan().leases
        workers = sorted({row.holder or "" for row in rows if not row.has_ended} & own)
        if not workers:
            raise Unknown(
                f"no worker of these settings owns a lease of the application {processor.application}, so that nothing was "
                "processed. The sensors of Dagster make the lease rows and assign them (headrace dev)"
            )
        for worker in workers:
            run_id = f"shell-{wiring.ports.ids.fresh()}"
            reading = wiring.reading(run_id, NoDagster(), on_wave=told.hear, on_waiting=tell_aside)
            ending = reading.everything_due(worker, to_the_newest=True)
            failed |= ending.failed
            if ending.error is not None:
                raise ending.error
    finally:
        wiring.ports.close()
    return {
        "processor": processor.name,
        "mode": processor.mode.value,
        "application": processor.application,
        "records": told.records,
        "stopped": failed,
        "notes": told.notes,
    }


def application_status(
    settings: "Settings", processor: "ProcessorSettings"
) -> "tuple[list[str], dict[str, Any]]":
    """The processor's status as lines for people, and as JSON. Only the lease table is read."""
    from headrace.pipeline.app.application_wiring import application_standing
    from headrace.pipeline.cli.views.processor_views import application_json

    try:
        standing = application_standing(settings, processor)
    except HeadraceError as error:
        sentence = f"processor {processor.name}: its lease rows can't be read: {error}"
        return [sentence], {
            "processor": processor.name,
            "error": str(error),
            "can_try_again": isinstance(error, Transient),
        }
    return [f"processor {standing}", *(f"  {line}" for line in standing.lines)], application_json(standing)
