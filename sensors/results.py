"""The answer that Dagster expects of a sensor's tick, made from the turn that a duty returns."""

from collections.abc import Sequence

import dagster as dg

from headrace.assets.names import partitions_name
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.duties.fleet.sensor_turn import Turn
from headrace.pipeline.settings.model import Settings
from headrace.resources.instance import KnownInstance


def result(
    context: dg.SensorEvaluationContext,
    instance: KnownInstance,
    settings: Settings,
    turn: Turn,
    run_requests: Sequence[dg.RunRequest] = (),
) -> dg.SensorResult:
    """Dagster takes run requests or a skip reason, not both: a tick without a run request shows its sentence
    as skip reason."""
    if turn.alarm is not None:
        # Dagster keeps what a sensor logs with its tick; a skip reason alone looks like a tick without anything to do.
        context.log.error(turn.alarm)
    name = partitions_name(settings)
    # The leader's sensor adds all keys; another deployment's workers add those of their own leases.
    missing = instance.missing_partitions(name, map(partition_of, turn.partitions))
    partitions = [dg.DynamicPartitionsDefinition(name=name).build_add_request(missing)] if missing else []
    if run_requests:
        return dg.SensorResult(
            run_requests=run_requests, cursor=turn.cursor, dynamic_partitions_requests=partitions
        )
    return dg.SensorResult(
        skip_reason=turn.sentence, cursor=turn.cursor, dynamic_partitions_requests=partitions
    )
