"""The leader's sensor: election, shard sync, assignment, and the partitions in this deployment's Dagster.

The sensors use the wiring directly instead of Dagster's resources, because Dagster would make each resource anew at every
tick. The resources of the assets are made from the same ports.
"""

import dagster as dg

from headrace.assets.names import slug
from headrace.pipeline.wiring import Wiring
from headrace.resources.instance import KeptInstance
from headrace.sensors.interval import interval
from headrace.sensors.results import result


def build_leader(wiring: Wiring, kept_instance: KeptInstance) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"{slug(wiring.settings.application)}_leader",
        minimum_interval_seconds=interval(wiring.settings.times.leader_tick),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Elects a leader, who keeps the lease rows in step with Kinesis's shards and assigns leases to workers.",
    )
    def leader(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        turn = wiring.leader_turn(context.cursor)
        return result(context, kept_instance.of(context), wiring.settings, turn)

    return leader
