"""A worker's sensor: write the worker's beat, see which shards have something to read, and ask for one run to
read them."""

from typing import Any

import dagster as dg

from headrace.assets.names import records_key, slug
from headrace.assets.records_config import config_of
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.duties.fleet.sensor_turn import RunAsk
from headrace.pipeline.settings.model import Settings
from headrace.resources.instance import KeptInstance
from headrace.resources.runs import LATER_TAG, DagsterRuns, worker_tag
from headrace.sensors.interval import interval
from headrace.sensors.results import failing_by_sentence, result, state_of_cursor


def build_worker(
    wiring: Wiring, kept_instance: KeptInstance, worker_id: str, job: Any
) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"{slug(wiring.settings.application)}_worker_{slug(worker_id)}",
        job=job,
        minimum_interval_seconds=interval(wiring.settings.times.worker_tick),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Writes the worker's beat, looks which of its shards have something to read, and asks for one run that reads "
        "them.",
    )
    def worker(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        code_server = kept_instance.of(context)
        instance = code_server.instance
        turn = failing_by_sentence(
            lambda: wiring.worker_turn(
                worker_id,
                state_of_cursor(context.cursor),
                instance=code_server.id,
                runs=DagsterRuns(instance, wiring.settings.application),
            )
        )
        # Before the next run is asked for: a run that Dagster takes for STARTED holds the worker's
        # place in the queue (`tag_concurrency_limits`).
        _report_dead(instance, turn.dead_runs)
        # A worker has one run at a time: a second one would only wait for the shards of the first.
        requests = [] if turn.ask is None else [_request(wiring.settings, turn.ask)]
        return result(context, code_server, wiring.settings, turn, requests)

    return worker


def _request(settings: Settings, ask: RunAsk) -> dg.RunRequest:
    op = "__".join(records_key(settings).path)
    return dg.RunRequest(
        # The key names the run that came before. A constant key would be asked for once and never
        # again, since Dagster leaves out keys that it has seen.
        run_key=ask.key,
        run_config={"ops": {op: {"config": config_of(ask)}}},
        tags=worker_tag(settings.application, ask.worker)
        | ({LATER_TAG: ",".join(map(partition_of, ask.left_alone))} if ask.left_alone else {}),
    )


def _report_dead(instance: dg.DagsterInstance, run_ids: tuple[str, ...]) -> None:
    """Tell Dagster that these runs have failed: a run whose host has died stays STARTED for ever and blocks
    the next run.

    If a run lives after all, no record is doubled: the lake table refuses a range that another run has landed.
    """
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(
                run,
                "this run showed no beat for longer than the lease duration, so its host counts as dead. "
                "No landed record is touched; the next run reads again what hadn't landed",
            )
