"""The schedules of upkeep and proofs, by the setting `dagster.schedules`."""

from collections.abc import Iterator

import dagster as dg

from headrace.pipeline.settings.choices import NEVER
from headrace.pipeline.settings.model import Settings


def build_schedules(
    settings: Settings, *, upkeep: dg.JobDefinition, proof: dg.JobDefinition
) -> Iterator[dg.ScheduleDefinition]:
    schedules = settings.dagster.schedules
    running, stopped = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
    for job, cron, status in (
        (upkeep, schedules.upkeep, running if settings.upkeep.enabled else stopped),
        (proof, schedules.proof, running),
    ):
        if cron != NEVER:
            yield dg.ScheduleDefinition(
                name=f"{job.name}_schedule", job=job, cron_schedule=cron, default_status=status
            )
