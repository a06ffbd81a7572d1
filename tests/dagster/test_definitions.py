"""What the composition root hands to Dagster."""

import dagster as dg

from tests.dagster.fixtures import MakeWorld


def test_the_records_are_partitioned_by_shard_and_come_from_the_stream(make_world: MakeWorld):
    world = make_world()
    node = world.defs.resolve_asset_graph().get(world.records)

    assert node.partitions_def == dg.DynamicPartitionsDefinition(name=f"{world.settings.application}_shards")
    assert node.parent_keys == {dg.AssetKey(["kinesis", "orders"])}
    assert node.kinds == {"kinesis", "pyspark", "iceberg"}


def test_stream_and_tables_are_shown_but_not_materialized_here(make_world: MakeWorld):
    world = make_world()
    graph = world.defs.resolve_asset_graph()

    outside = {key.to_user_string() for key in graph.external_asset_keys}

    app = world.settings.application
    tables = (app, f"{app}_WorkerMetricStats", f"{app}_CoordinatorState")
    assert outside == {"kinesis/orders", *(f"dynamodb/{table}" for table in tables)}
    assert graph.materializable_asset_keys == {world.records}


def test_a_selection_of_partitions_becomes_one_run(make_world: MakeWorld):
    world = make_world()
    node = world.defs.resolve_asset_graph().get(world.records)

    assert node.backfill_policy == dg.BackfillPolicy.single_run()


def test_sensors_run_from_the_start_and_ask_for_less_than_dagsters_own_loop(make_world: MakeWorld):
    for sensor in make_world(workers=("w1", "w2")).defs.get_repository_def().sensor_defs:
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        assert sensor.minimum_interval_seconds == 4, "asking for the loop's 5 s would be asking for 10"
