"""The sensor of a typed table: ask for a run where the lake table has records that the typed table lacks.

Runs of one target don't overlap: no run is asked for while another one of the target is open. If two overlap all the same, the typed
table's compare-and-swap refuses one of them.
"""

from datetime import timedelta
from time import time
from typing import Any

import dagster as dg

from headrace.assets.names import slug
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.wiring import Wiring
from headrace.resources.instance import KeptInstance
from headrace.sensors.interval import interval

TARGET_TAG = "headrace/target"
"""Tag of every run that parses: the name of its target."""
_EVERY = timedelta(seconds=30)
_AFTER_A_FAILURE = timedelta(minutes=5)
"""A parser that fails would else be run again without a break."""
_LONGEST = timedelta(hours=1)
"""A run that has been open for longer counts as dead: its host may be gone, and Dagster shows it as started for hours."""
_OPEN = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.MANAGED,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def build_parsed_sensor(
    wiring: Wiring, kept_instance: KeptInstance, target: ParseSettings, job: Any
) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"{slug(wiring.settings.application)}_parse_{target.name}",
        job=job,
        minimum_interval_seconds=interval(_EVERY),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=__doc__,
    )
    def parsed(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        why = _why_not(kept_instance.of(context).instance, target)
        trouble = ""
        try:
            if why is None and not wiring.targets.parsing(target, "sensor").is_behind():
                why = f"{target.table} has all that the lake table has"
        except HeadraceError as error:
            why = trouble = str(error)
        if trouble:
            # Dagster keeps what a sensor logs with its tick; a skip reason alone looks like a tick without anything to do.
            context.log.error(trouble)
        if why is not None:
            return dg.SensorResult(skip_reason=why)
        return dg.SensorResult(run_requests=[dg.RunRequest(tags={TARGET_TAG: target.name})])

    return parsed


def _why_not(instance: dg.DagsterInstance, target: ParseSettings) -> str | None:
    tag = {TARGET_TAG: target.name}
    opened = instance.get_run_records(dg.RunsFilter(tags=tag, statuses=_OPEN), limit=1)
    if opened and time() - opened[0].create_timestamp.timestamp() < _LONGEST.total_seconds():
        return f"a run of {target.name} is open"
    newest = instance.get_run_records(dg.RunsFilter(tags=tag), limit=1)
    if newest and newest[0].dagster_run.status is dg.DagsterRunStatus.FAILURE:
        left = _AFTER_A_FAILURE.total_seconds() - (time() - (newest[0].end_time or 0))
        if left > 0:
            return f"the last run of {target.name} failed; the next one comes in {left:.0f} s"
    return None
