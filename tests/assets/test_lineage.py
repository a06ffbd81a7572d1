"""The asset of the lineage table."""

import dagster as dg

from headrace.assets.names import lineage_key
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld, why_failed
from tests.memory.table import LostOnTheWay


def record(world: DagsterWorld) -> dg.ExecuteInProcessResult:
    """Materialize the asset as a person does."""
    job = world.defs.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=world.instance, asset_selection=[lineage_key(world.settings)], raise_on_error=False
    )


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    (made,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in made.materialization.metadata.items()}


def landed(world: DagsterWorld) -> DagsterWorld:
    """A world in which both shards have landed records."""
    world.settle()
    world.world.produce(0)
    world.world.produce(1)
    assert world.read().success
    return world


def unrecorded(world: DagsterWorld) -> DagsterWorld:
    """A world with commits since the run that has recorded its own."""
    landed(world)
    for _ in range(3):
        world.world.table.carry()
    return world


def test_a_materialization_records_what_landed_and_tells_how_far_the_table_goes(make_world: MakeWorld):
    world = unrecorded(make_world())
    result = record(world)
    assert result.success
    recorded = world.world.lineage.recorded()
    assert recorded.snapshot == world.world.table.load().snapshot
    assert recorded.ranges >= 2
    metadata = metadata_of(result)
    assert str(metadata.pop("shards")).startswith(
        "![the shards and their parents](data:image/svg+xml;base64,"
    )
    assert metadata == {
        "ranges": recorded.ranges,
        "snapshots recorded": recorded.snapshots,
        "gaps": 0,
        "newest snapshot": str(recorded.snapshot),
    }


def test_a_materialization_with_nothing_new_says_the_same_again(make_world: MakeWorld):
    world = landed(make_world())
    assert metadata_of(record(world)) == metadata_of(record(world))


def test_lost_parts_of_the_history_are_told(make_world: MakeWorld):
    world = unrecorded(make_world())
    table = world.world.table
    table.forget(*(set(table.snapshots) - {table.head or 0}))
    metadata = metadata_of(record(world))
    assert metadata["gaps"] == 1
    assert "can't be read any more" in str(metadata["lost parts"])


def test_a_recording_that_fails_says_why(make_world: MakeWorld):
    world = unrecorded(make_world())

    def refuse(way: str) -> None:
        raise LostOnTheWay(way)

    world.world.lineage.fault = refuse
    result = record(world)
    assert not result.success
    assert "recordings got no clear answer" in why_failed(result)


def test_the_asset_has_no_partitions_and_comes_after_the_records(make_world: MakeWorld):
    world = make_world()
    node = world.defs.resolve_asset_graph().get(lineage_key(world.settings))
    assert node.partitions_def is None
    assert node.parent_keys == {world.records}


def test_runs_of_records_record_what_they_land_and_report_nothing_about_the_asset(make_world: MakeWorld):
    world = landed(make_world())
    assert world.world.lineage.recorded().snapshot == world.world.table.load().snapshot
    assert world.instance.get_latest_materialization_event(lineage_key(world.settings)) is None
