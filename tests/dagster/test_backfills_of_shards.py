"""Shards are read by Dagster's own backfills, beside the runs that the sensors ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance

from tests.dagster.backfills import WARNINGS_OF_DAGSTER, Backfills, backfills_of
from tests.dagster.world import DagsterWorld, key, keys

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(warning) for warning in WARNINGS_OF_DAGSTER)]

SHARDS = 500


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[DagsterWorld, Backfills]]:
    with DagsterInstance.ephemeral() as unused:
        world = DagsterWorld(instance=unused, shards=SHARDS)
        with backfills_of(world.defs, tmp_path) as backfills:
            world.instance = backfills.instance
            world.settle()
            for shard in range(SHARDS):
                world.world.produce(shard)
            yield world, backfills


def test_500_shards_are_read_by_one_run_for_each_contiguous_range_beside_the_runs_of_the_sensor(
    served: tuple[DagsterWorld, Backfills],
):
    world, backfills = served
    chosen = [*range(150), *range(200, 250), 300, *range(400, SHARDS)]
    backfill = backfills.done([world.records], partitionNames=keys(*chosen))
    assert backfills.shown(backfill)["status"] == "COMPLETED_SUCCESS"
    assert len(backfills.runs(backfill)) == 4
    assert world.statuses()["MATERIALIZED"] == keys(*chosen)
    world.world.produce(7)
    assert world.read().success
    assert world.statuses() == {"MATERIALIZED": keys(*range(SHARDS))}
    world.world.check()


def test_a_backfill_of_all_shards_is_one_run_and_a_second_one_finds_nothing_and_is_green(
    served: tuple[DagsterWorld, Backfills],
):
    world, backfills = served
    for _ in range(2):
        backfill = backfills.done([world.records], partitionNames=list(world.known()))
        assert backfills.shown(backfill)["status"] == "COMPLETED_SUCCESS"
        assert len(backfills.runs(backfill)) == 1
    world.world.check()


def test_a_cancelled_backfill_starts_no_run_and_the_next_one_reads_the_same_shards(
    served: tuple[DagsterWorld, Backfills],
):
    world, backfills = served
    backfill = backfills.started([world.records], partitionNames=keys(1, 3))
    backfills.cancel(backfill)
    backfills.tick()
    assert backfills.shown(backfill)["status"] == "CANCELED"
    assert backfills.runs(backfill) == []
    second = backfills.done([world.records], partitionNames=keys(1, 3))
    assert len(backfills.runs(second)) == 2
    assert world.statuses()["MATERIALIZED"] == keys(1, 3)


def test_the_page_of_a_backfill_tells_of_a_shard_that_there_isnt_before_a_run_is_started(
    served: tuple[DagsterWorld, Backfills],
):
    world, backfills = served
    answer = backfills.launch([world.records], partitionNames=[key(SHARDS + 7)])
    assert answer["__typename"] != "LaunchBackfillSuccess"
