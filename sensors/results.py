"""The answer that Dagster expects of a sensor's tick, made from the turn that a duty returns."""

from collections.abc import Iterable, Sequence

import dagster as dg

from assets.names import partitions_name
from pipeline.duties.turns import Turn
from pipeline.settings.model import Settings


def result(
    context: dg.SensorEvaluationContext,
    instance: dg.DagsterInstance,
    settings: Settings,
    turn: Turn,
    run_requests: Sequence[dg.RunRequest] = (),
) -> dg.SensorResult:
    """Dagster takes run requests or a skip reason, not both: a tick without a run request shows its sentence as skip reason."""
    if turn.alarm is not None:
        # Dagster keeps what a sensor logs with its tick; a skip reason alone looks like a tick without anything to do.
        context.log.error(turn.alarm)
    partitions = _missing_partitions(instance, settings, turn.partitions)
    if run_requests:
        return dg.SensorResult(
            run_requests=run_requests, cursor=turn.cursor, dynamic_partitions_requests=partitions
        )
    return dg.SensorResult(
        skip_reason=turn.sentence, cursor=turn.cursor, dynamic_partitions_requests=partitions
    )


def _missing_partitions(
    instance: dg.DagsterInstance, settings: Settings, keys: Iterable[str]
) -> list[dg.AddDynamicPartitionsRequest]:
    """The leader's sensor adds all keys; another deployment's workers add those of their own leases."""
    keys = tuple(keys)
    if not keys:
        return []
    known = set(instance.get_dynamic_partitions(partitions_name(settings)))
    missing = [key for key in keys if key not in known]
    partitions = dg.DynamicPartitionsDefinition(name=partitions_name(settings))
    return [partitions.build_add_request(missing)] if missing else []
