"""The sensor of the record processors: ask for a run of each processor that lacks records of the lake table.

Each processor has runs of its own, so that one that fails holds up no other one. No run of a processor is asked for while
another one is open, or when one failed lately. If two overlap all the same, the compare-and-swap of the processor's table
refuses one of them.
"""

from datetime import timedelta
from time import time
from typing import Any

import dagster as dg

from headrace.assets.names import processor_key
from headrace.assets.processors import process_job
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.targets import landed_processors
from headrace.pipeline.typed.following import EVERY
from headrace.resources.instance import KeptInstance
from headrace.resources.runs import OPEN, PROCESSOR_TAG
from headrace.sensors.interval import interval
from headrace.sensors.results import with_sentence

# A processor that fails would else be run again without a break.
_AFTER_A_FAILURE = timedelta(minutes=5)
# A run that has been open for longer counts as dead: its host may be gone.
_LONGEST = timedelta(hours=1)


def build_processor_sensor(wiring: Wiring, kept_instance: KeptInstance, job: Any) -> dg.SensorDefinition:
    settings = wiring.settings

    @dg.sensor(
        name=process_job(settings),
        job=job,
        minimum_interval_seconds=interval(EVERY),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for a run of each record processor that lacks records of the lake table. A processor whose last run failed "
        "waits for five minutes, and the others don't.",
    )
    def processors(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance = kept_instance.of(context).instance
        requests: list[dg.RunRequest] = []
        notes: list[str] = []
        troubles: list[str] = []
        for processor in landed_processors(settings):
            if wait := _why_wait(instance, job.name, processor):
                notes.append(wait)
                continue
            try:
                is_behind = wiring.processors.processing(processor, "sensor").is_behind()
            except HeadraceError as error:
                troubles.append(f"{processor.name}: {error}")
                continue
            if is_behind:
                key = processor_key(settings, processor)
                requests.append(dg.RunRequest(asset_selection=[key], tags={PROCESSOR_TAG: processor.name}))
            else:
                notes.append(f"{processor.table}: nothing is missing that the lake table has")
        for trouble in troubles:
            # Dagster keeps what a sensor logs with its tick; a skip reason alone looks like a tick without anything to do.
            context.log.error(trouble)
        if requests:
            asked = ", ".join(request.tags[PROCESSOR_TAG] for request in requests)
            said = "; ".join((f"a run is asked for: records to process for {asked}", *troubles, *notes))
            return dg.SensorResult(run_requests=requests, cursor=with_sentence(None, f"process: {said}"))
        said = "; ".join((*troubles, *notes))
        return dg.SensorResult(skip_reason=said, cursor=with_sentence(None, f"process: {said}"))

    return processors


def _why_wait(instance: dg.DagsterInstance, job: str, processor: ProcessorSettings) -> str | None:
    """Why no run of this processor is asked for now."""
    filters = dg.RunsFilter(job_name=job, tags={PROCESSOR_TAG: processor.name})
    newest = instance.get_run_records(filters, limit=1)
    if not newest:
        return None
    record, run = newest[0], newest[0].dagster_run
    if run.status in OPEN and time() - record.create_timestamp.timestamp() < _LONGEST.total_seconds():
        return f"run {run.run_id} works for {processor.name}"
    wait = _AFTER_A_FAILURE.total_seconds() - (time() - (record.end_time or 0))
    if run.status is dg.DagsterRunStatus.FAILURE and wait > 0:
        return f"the last run of {processor.name} failed; the next one comes in {wait:.0f} s"
    return None
