"""How many events a run leaves in Dagster's storage, which never deletes events by itself: they grow with shards and with the clock, and not with
waves or records."""

import pytest

from headrace.assets.reporter import ANNOUNCE_ALL_UP_TO
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld

_OF_A_RUN = 40
"""Events that a run has besides those of its shards: of Dagster, and a line for each of its first waves."""


def _events_of_a_run(world: DagsterWorld, records: int) -> int:
    world.settle()
    for shard in range(world.shards):
        world.world.produce(shard, records)
    request = world.asked()
    assert request is not None
    result = world.execute(request.run_config, tags=dict(request.tags))
    assert result.success
    assert len(world.world.landed()) == world.shards * records
    return len(world.instance.all_logs(result.run_id))


@pytest.mark.parametrize("shards", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_run_leaves_at_most_two_events_for_each_shard_in_the_time_between_materializations(
    make_world: MakeWorld, shards: int
):
    assert shards > ANNOUNCE_ALL_UP_TO
    assert _events_of_a_run(make_world(shards=shards), 1) <= 2 * shards + _OF_A_RUN


def test_many_waves_leave_no_more_events_of_shards_than_few_waves(make_world: MakeWorld):
    few = _events_of_a_run(make_world(shards=10), 2)
    # A wave takes at most so many records of all shards together.
    many = _events_of_a_run(make_world(shards=10, wave_records=20), 12)
    assert many <= few + _OF_A_RUN
