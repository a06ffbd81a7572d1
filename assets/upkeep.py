"""`<application>_upkeep`: the job that keeps the lake table small.

It has a job of its own because it deletes files, which the role of the runs that land records needs no right to do.
"""

import dagster as dg

from headrace.assets.changes import by_upkeep
from headrace.assets.failure import RunFailed
from headrace.assets.names import resource_key, slug, upkeep_key
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.upkeep.upkeep import UpkeepReport


def build_upkeep(wiring: Wiring) -> dg.JobDefinition:
    name = f"{slug(wiring.settings.application)}_upkeep"

    @dg.op(
        name=f"upkeep_{slug(wiring.settings.application)}",
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(wiring.settings, "spark")},
        pool=wiring.settings.dagster.pools.get("upkeep"),
        description="Drop days before the retention, compact data files, expire old snapshots, "
        "and delete the files that nothing names.",
    )
    def upkeep(context: dg.OpExecutionContext) -> dg.Output[None]:
        report = wiring.upkeep.run()
        for note in (*report.notes, str(report)):
            context.log.info(note)
        for event in by_upkeep(wiring.settings, report):
            context.log_event(event)
        kind = dg.AssetObservation if report.troubles else dg.AssetMaterialization
        context.log_event(kind(upkeep_key(wiring.settings), metadata=_metadata(report)))
        if report.troubles:
            raise RunFailed("; ".join(map(str, report.troubles)), _metadata(report))
        return dg.Output(None, metadata=_metadata(report))

    @dg.job(name=name, description=__doc__, executor_def=dg.in_process_executor)
    def job() -> None:
        upkeep()

    return job


def _metadata(report: UpkeepReport) -> dict[str, dg.MetadataValue]:
    compacted = report.compacted
    before = compacted.before
    number = dg.MetadataValue.int
    return {
        "in short": dg.MetadataValue.text("; ".join((*report.notes, str(report)))),
        "files compacted": number(len(before)),
        "files after": number(compacted.files),
        "bytes compacted": number(sum(file.size for file in before)),
        "bytes after": number(compacted.bytes),
        "rows compacted": number(sum(file.rows for file in before)),
        "groups left": number(len(compacted.left)),
        "rows dropped by retention": number(sum(file.rows for file in report.dropped)),
        "files deleted": number(len(report.deleted)),
    }
