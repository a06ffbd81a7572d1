"""`<application>_upkeep`: the job that keeps the lake table small.

Upkeep has a job of its own because it deletes files, which the AWS role of the runs that land records then
needn't be allowed to do.
"""

import dagster as dg

from headrace.assets.changes import by_upkeep, upkeep_metadata
from headrace.assets.failure import RunFailed
from headrace.assets.names import resource_key, slug
from headrace.assets.one_op_job import job_of
from headrace.pipeline.app.wiring import Wiring


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
        if report.troubles:
            raise RunFailed("; ".join(map(str, report.troubles)), upkeep_metadata(report))
        return dg.Output(None, metadata=upkeep_metadata(report))

    return job_of(
        upkeep,
        name,
        description=(
            "Keeps the tables small: compacts files, lets snapshots and days expire, and deletes files that nothing names."
        ),
    )
