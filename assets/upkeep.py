"""`<application>_upkeep`: the job that keeps the lake table small, with its schedule.

It has a job of its own because it deletes files, which the role of the runs that land records needs no right to do.
"""

import dagster as dg

from assets.names import slug
from pipeline.wiring import Wiring

_EVERY_SIX_HOURS = "23 */6 * * *"


def build_upkeep(wiring: Wiring) -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    name = f"{slug(wiring.settings.application)}_upkeep"

    @dg.op(
        name="upkeep", description="Expire old snapshots, and delete the files that nothing names any more."
    )
    def upkeep(context: dg.OpExecutionContext) -> None:
        report = wiring.upkeep().run()
        for note in (*report.notes, str(report)):
            context.log.info(note)

    @dg.job(name=name, description=__doc__)
    def job() -> None:
        upkeep()

    status = dg.DefaultScheduleStatus
    schedule = dg.ScheduleDefinition(
        name=f"{name}_schedule",
        job=job,
        cron_schedule=_EVERY_SIX_HOURS,
        default_status=status.RUNNING if wiring.settings.upkeep.enabled else status.STOPPED,
    )
    return job, schedule
