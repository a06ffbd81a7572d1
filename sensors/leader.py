"""The leader's sensor: election, shard sync, assignment, and chores in this deployment's Dagster: partitions, old
runs and old ticks.

The sensors use the wiring directly instead of Dagster's resources, because Dagster would make each resource
anew at every tick. The resources of the assets are made from the same ports.
"""

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from headrace.assets.names import slug
from headrace.pipeline.app.wiring import Wiring
from headrace.resources.instance import KeptInstance
from headrace.sensors.housekeeping import Housekeeping
from headrace.sensors.interval import interval
from headrace.sensors.results import failing_by_sentence, result, state_of_cursor


def build_leader(
    wiring: Wiring, kept_instance: KeptInstance, jobs: Sequence[str] = (), sensors: Sequence[str] = ()
) -> dg.SensorDefinition:
    """The leader's sensor. `jobs`, `sensors`: the names of the application's jobs and other sensors, whose old runs and ticks are deleted."""
    name = f"{slug(wiring.settings.application)}_leader"
    housekeeping = Housekeeping(wiring, jobs, (name, *sensors))

    @dg.sensor(
        name=name,
        minimum_interval_seconds=interval(wiring.settings.times.leader_tick),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Elects a leader, who keeps the lease rows in step with Kinesis's shards and assigns leases to "
        "workers.",
    )
    def leader(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        code_server = kept_instance.of(context)
        turn = failing_by_sentence(lambda: wiring.leader_turn(state_of_cursor(context.cursor)))
        done = ", ".join(housekeeping.of(context, code_server.instance))
        if done:
            turn = replace(turn, sentence=f"{turn.sentence}, {done}")
        return result(context, code_server, wiring.settings, turn)

    return leader
