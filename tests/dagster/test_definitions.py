"""The definitions that Dagster gets."""

from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest

from headrace.assets.names import leases_key, lineage_key
from headrace.assets.outside import outside
from headrace.pipeline.building import build_definitions
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.blocks.dagster import DagsterSettings, ScheduleSettings
from headrace.pipeline.settings.blocks.parse import LatestSettings, ParseSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.settings.choices import Into
from headrace.pipeline.settings.model import Settings, StreamSettings, TimeSettings, WorkerSettings
from headrace.sensors.interval import interval
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import Ports
from tests.lake.tables import patch


def test_the_asset_records_is_partitioned_by_shard_and_depends_on_the_stream(make_world: MakeWorld):
    world = make_world()
    node = world.defs.resolve_asset_graph().get(world.records)

    assert node.partitions_def == dg.DynamicPartitionsDefinition(name=f"{world.settings.application}_shards")
    assert node.parent_keys == {dg.AssetKey(["kinesis", "orders"]), leases_key(world.settings)}
    assert node.kinds == {"kinesis", "pyspark", "iceberg"}


def test_stream_coordination_tables_and_reports_of_jobs_are_external_assets(make_world: MakeWorld):
    world = make_world()
    graph = world.defs.resolve_asset_graph()

    outside = {key.to_user_string() for key in graph.external_asset_keys}

    app = world.settings.application
    own = ("leases", "workers", "leader", "upkeep", "proof")
    assert outside == {"kinesis/orders", *(f"{app}/{name}" for name in own)}
    assert graph.materializable_asset_keys == {
        world.records,
        lineage_key(world.settings),
    }


def test_a_selection_of_partitions_becomes_one_run(make_world: MakeWorld):
    world = make_world()
    node = world.defs.resolve_asset_graph().get(world.records)

    assert node.backfill_policy == dg.BackfillPolicy.single_run()


def test_sensors_run_from_the_start_with_the_intervals_that_the_settings_say(make_world: MakeWorld):
    times = TimeSettings(worker_tick=timedelta(seconds=10), leader_tick=timedelta(seconds=30))
    world = make_world(workers=("w1", "w2"), times=times)
    sensors, app = world.defs.get_repository_def().sensor_defs, world.settings.application

    assert all(sensor.default_status is dg.DefaultSensorStatus.RUNNING for sensor in sensors)
    asked = {sensor.name: sensor.minimum_interval_seconds for sensor in sensors}
    assert asked == {f"{app}_leader": 29, f"{app}_worker_w1": 9, f"{app}_worker_w2": 9, f"{app}_watch": 59}


@pytest.mark.parametrize(("tick", "asked"), [(5.0, 4), (1.0, 1), (0.5, 1), (7.5, 6), (60.0, 59)])
def test_the_interval_of_a_sensor_is_a_second_less_than_its_tick(tick: float, asked: int):
    """Dagster's daemon looks at its sensors every 5 s: an interval of 5 s would give a tick every 10 s. An interval of 0 means Dagster's 30 s."""
    assert interval(timedelta(seconds=tick)) == asked


def test_the_upkeep_job_runs_by_a_schedule_unless_the_settings_switch_upkeep_off(make_world: MakeWorld):
    world = make_world()
    app = world.settings.application
    for enabled, status in ((True, "RUNNING"), (False, "STOPPED")):
        settings = replace(world.settings, upkeep=UpkeepSettings(enabled=enabled))
        defs = build_definitions(settings, ports=Ports(world.world))
        schedules = {schedule.job_name: schedule for schedule in defs.get_repository_def().schedule_defs}
        assert schedules[f"{app}_upkeep"].default_status is dg.DefaultScheduleStatus[status]


def test_proofs_run_nightly_and_the_settings_change_or_drop_each_schedule(make_world: MakeWorld):
    world = make_world()
    app = world.settings.application

    def crons(schedules: ScheduleSettings) -> dict[str, object]:
        settings = replace(world.settings, dagster=DagsterSettings(schedules=schedules))
        defs = build_definitions(settings, ports=Ports(world.world)).get_repository_def().schedule_defs
        running = dg.DefaultScheduleStatus.RUNNING
        return {made.job_name: made.cron_schedule for made in defs if made.default_status is running}

    assert crons(ScheduleSettings()) == {f"{app}_upkeep": "23 */6 * * *", f"{app}_prove": "47 2 * * *"}
    assert crons(ScheduleSettings(upkeep="7 * * * *", proof="never")) == {f"{app}_upkeep": "7 * * * *"}


def test_each_kind_of_run_has_the_pool_of_the_settings_and_windows_have_one_of_their_own(
    make_world: MakeWorld,
):
    world = make_world()
    pools = {"records": "reading", "parse": "typed", "upkeep": "nightly", "proof": "nightly"}
    target = ParseSettings(name="sold", table="lake.sold", schema="id BIGINT")
    settings = replace(world.settings, parse=(target,), dagster=DagsterSettings(pools=pools))
    defs = build_definitions(settings, ports=Ports(world.world))
    app = settings.application
    found = {
        name: {pool for node in defs.resolve_job_def(f"{app}_{name}").nodes for pool in node.definition.pools}
        for name in ("consume", "parse", "redrive_sold", "upkeep", "prove", "replay")
    }
    assert found == {
        "consume": {"reading"},
        "parse": {"typed"},
        "redrive_sold": {"typed"},
        "upkeep": {"nightly"},
        "prove": {"nightly"},
        "replay": {f"{app}_replay"},
    }


def test_a_target_whose_redrive_would_be_refused_has_no_job_for_it(make_world: MakeWorld):
    world = make_world()
    schema = "id BIGINT NOT NULL"
    rows = ParseSettings(name="sold", table="lake.sold", schema=schema)
    latest = ParseSettings(
        name="stock", table="lake.stock", schema=schema, into=Into.LATEST, latest=LatestSettings(key="id")
    )
    settings = replace(world.settings, parse=(rows, latest))
    defs = build_definitions(settings, ports=Ports(world.world)).get_repository_def()
    redrives = [name for name in defs.job_names if "_redrive_" in name]
    assert redrives == [f"{settings.application}_redrive_sold"]
    specs = {spec.key.path[-1]: spec.description or "" for spec in outside(settings)}
    assert ("_redrive_" in specs["sold_quarantine"], "_redrive_" in specs["stock_quarantine"]) == (
        True,
        False,
    )


def test_the_upkeep_job_runs_before_anything_has_landed_and_afterwards(make_world: MakeWorld):
    world = make_world()
    job = world.defs.resolve_job_def(f"{world.settings.application}_upkeep")
    assert job.execute_in_process().success
    world.world.lead()
    assert job.execute_in_process().success


def test_the_upkeep_job_tells_files_bytes_and_rows_before_and_after(make_world: MakeWorld):
    world = make_world()
    world.world.lead()
    job = world.defs.resolve_job_def(f"{world.settings.application}_upkeep")
    done = job.execute_in_process()
    (output,) = (event for event in done.all_events if event.is_successful_output)
    told = output.step_output_data.metadata
    assert {name: told[name].value for name in ("files compacted", "files after", "rows compacted")} == {
        "files compacted": 0,
        "files after": 0,
        "rows compacted": 0,
    }
    assert "0 files (0 bytes) deleted" in str(told["in short"].value)


def test_an_upkeep_job_of_which_a_part_failed_fails_with_its_sentence(make_world: MakeWorld):
    world = make_world()
    world.world.lead()
    patch(world.world.live, "live", _gone)
    job = world.defs.resolve_job_def(f"{world.settings.application}_upkeep")
    done = job.execute_in_process(raise_on_error=False)
    assert not done.success
    (failure,) = (event for event in done.all_events if event.is_step_failure)
    assert "the storage didn't answer" in str(failure.step_failure_data.user_failure_data)


def _gone() -> None:
    raise Unreachable("the storage didn't answer")


def test_two_applications_that_read_one_stream_fit_into_one_code_location():
    streams = (StreamSettings(name="orders"),)
    one, two = (
        build_definitions(Settings(application=name, streams=streams, workers=(WorkerSettings(id="w1"),)))
        for name in ("one", "two")
    )
    keys = {key.to_user_string() for key in dg.Definitions.merge(one, two).resolve_all_asset_keys()}
    assert {"one/records", "two/records", "kinesis/orders"} <= keys
