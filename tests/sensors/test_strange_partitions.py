"""A partition that a person adds by mistake: its run says so, and then Dagster is as before."""

from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import partitions_name
from headrace.pipeline.clock import SystemClock
from headrace.resources.strange_partitions import StrangePartitions
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld, keys, why_failed


class Ahead(SystemClock):
    by = timedelta(0)

    def monotonic(self) -> float:
        return super().monotonic() + self.by.total_seconds()


@pytest.fixture
def world(make_world: MakeWorld) -> DagsterWorld:
    made = make_world()
    made.ports.clock = Ahead()
    made.settle()
    assert made.read().success
    return made


def _later(world: DagsterWorld, by: timedelta = timedelta(seconds=31)) -> str:
    clock: Any = world.ports.clock
    clock.by += by
    return str(world.tick("leader").skip_reason)


def _add(world: DagsterWorld, key: str = "foo") -> None:
    world.instance.add_dynamic_partitions(partitions_name(world.settings), [key])


def test_a_partition_without_a_shard_goes_after_its_run_has_failed_with_a_sentence(world: DagsterWorld):
    _add(world)
    said = why_failed(world.execute(partition="foo"))
    assert said.startswith("there is no shard 'foo'")
    assert world.statuses() == {"FAILED": ["foo"], "MATERIALIZED": keys(0, 1)}

    assert "removed from Dagster's partitions, because no shard has the name: foo" in _later(world)

    assert sorted(world.known()) == keys(0, 1)
    assert world.statuses() == {"MATERIALIZED": keys(0, 1)}
    assert "removed" not in _later(world)


def test_what_depends_on_all_shards_is_asked_for_again_once_the_partition_is_gone(world: DagsterWorld):
    @dg.asset(deps=[world.records], automation_condition=dg.AutomationCondition.eager())
    def report() -> None: ...

    defs = dg.Definitions.merge(world.defs, dg.Definitions(assets=[report]))
    cursor: Any = None

    def is_asked_for() -> bool:
        nonlocal cursor
        found = dg.evaluate_automation_conditions(defs, world.instance, cursor=cursor)
        cursor = found.cursor
        return found.total_requested > 0

    def land() -> None:
        world.world.produce(0)
        assert world.read().success

    is_asked_for()
    land()
    assert is_asked_for()
    world.instance.report_runless_asset_event(dg.AssetMaterialization("report"))
    assert not is_asked_for()
    _add(world)
    world.execute(partition="foo")
    land()
    assert not is_asked_for(), (
        "the reason for this test: a partition that never comes stops what depends on it"
    )

    _later(world)

    assert is_asked_for()


def test_a_partition_for_which_nobody_starts_a_run_goes_after_ten_minutes(world: DagsterWorld):
    _add(world)
    assert "removed" not in _later(world)
    assert "removed" not in _later(world, timedelta(minutes=9))
    assert "removed" in _later(world, timedelta(minutes=2))
    assert sorted(world.known()) == keys(0, 1)


def test_a_partition_stays_while_its_run_waits_or_works(world: DagsterWorld):
    _add(world)
    world.instance.create_run_for_job(
        world.job, tags={"dagster/partition": "foo"}, status=dg.DagsterRunStatus.STARTED
    )
    assert "removed" not in _later(world)
    assert "foo" in world.known()


def test_a_shard_of_which_nothing_has_landed_yet_stays(make_world: MakeWorld):
    world = make_world()
    world.ports.clock = Ahead()
    world.settle()
    for _ in range(3):
        assert "removed" not in _later(world, timedelta(hours=1))
    assert sorted(world.known()) == keys(0, 1)


def test_a_shard_stays_whose_row_cant_be_understood(make_world: MakeWorld):
    """Whoever can't read a row doesn't know that there is no shard (I23)."""
    world = make_world()
    world.ports.clock = Ahead()
    world.settle()
    row = world.world.leases._rows.pop(keys(1)[0])
    world.world.leases.hold_odd_row(row.key, "leaseCounter is a text")
    for _ in range(3):
        assert "removed" not in _later(world, timedelta(hours=1))
    assert sorted(world.known()) == keys(0, 1)


def test_an_ended_shard_whose_row_is_gone_stays_with_what_dagster_shows_of_it(world: DagsterWorld):
    for key in keys(0, 1):
        world.world.leases._rows.pop(key)
    ports: Any = world.ports
    clock = ports.clock
    strange = StrangePartitions(name=partitions_name(world.settings), asset=world.records, ports=ports)
    for _ in range(2):
        assert strange.remove(world.instance) == ()
        clock.by += timedelta(hours=1)
    assert world.statuses() == {"MATERIALIZED": keys(0, 1)}
