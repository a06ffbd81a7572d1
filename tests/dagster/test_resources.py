"""Dagster's resources: a launchpad can't change what they read, and a user's own assets can ask them."""

import re
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import resource_key
from headrace.pipeline.errors import Unknown
from headrace.resources.lease_tables import LeaseTablesResource
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld, key
from tests.docs.pages import ROOT


def resource(world: DagsterWorld, name: str) -> Any:
    """The resource as an asset of this application gets it."""
    slot = resource_key(world.settings, name)
    return dg.build_resources({slot: (world.defs.resources or {})[slot]}, instance=world.instance)


def launchpad(world: DagsterWorld, name: str, **changed: Any) -> dict[str, Any]:
    """The config of a run of worker w1, with the resource's config as the launchpad offers it, and these changes."""
    slot = resource_key(world.settings, name)
    offered: Any = (world.defs.resources or {})[slot]
    fields = {
        field: value for field, value in dict(offered).items() if field != "wiring" and value is not None
    }
    return {**world.config(worker="w1"), "resources": {slot: {"config": {**fields, **changed}}}}


def with_tables(world: DagsterWorld, ask: Any) -> Any:
    with resource(world, "lease_tables") as resources:
        tables: LeaseTablesResource = getattr(resources, resource_key(world.settings, "lease_tables"))
        return ask(tables)


def why_no_step_began(result: dg.ExecuteInProcessResult) -> str:
    """The innermost error of a run whose resources couldn't be made."""
    errors = [getattr(event.event_specific_data, "error", None) for event in result.all_events]
    error = next(error for error in errors if error is not None)
    while error.cause is not None:
        error = error.cause
    return str(error.message)


@pytest.mark.parametrize(
    ("name", "field", "value", "setting"),
    [
        ("lease_tables", "region_name", "eu-north-1", "aws.region"),
        ("lease_tables", "lease_table", "another", "coordination.lease_table"),
        ("stream", "endpoint_url", "http://localhost:1", "aws.endpoint"),
        ("stream", "streams", ["clicks"], "streams"),
        ("stream", "max_attempts", 1, "makes its own clients"),
        ("lake", "table", "lake.another", "landing.table"),
        ("spark", "spark_config", {"spark.executor.memory": "9g"}, "workers.N.spark"),
    ],
)
def test_a_run_whose_launchpad_changes_a_resource_reads_nothing_and_names_the_setting(
    make_world: MakeWorld, name: str, field: str, value: Any, setting: str
):
    world = make_world()
    world.settle()
    world.world.produce(0)

    result = world.execute(launchpad(world, name, **{field: value}))

    assert not result.success
    assert f"was given {field}=" in why_no_step_began(result)
    assert setting in why_no_step_began(result)
    assert not world.world.landed()


def test_a_run_whose_launchpad_repeats_the_settings_reads(make_world: MakeWorld):
    world = make_world()
    world.settle()
    world.world.produce(0)

    assert world.execute(launchpad(world, "lake")).success
    assert world.world.landed()


def test_an_asset_of_the_users_sees_the_leases_that_the_sensors_have_assigned(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"))
    page = (ROOT / "docs" / "start" / "in-your-project.md").read_text(encoding="utf-8")
    (block,) = (
        code
        for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "who_reads" in code
    )
    names: dict[str, Any] = {}
    exec(block.replace("orders_lease_tables", resource_key(world.settings, "lease_tables")), names)
    defs = dg.Definitions.merge(dg.Definitions(assets=[names["who_reads"]]), world.defs)
    world.settle()

    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=world.instance, asset_selection=[dg.AssetKey(["who_reads"])]
    )

    (event,) = result.asset_materializations_for_node("who_reads")
    readers = {shard: value.value for shard, value in event.metadata.items()}
    assert set(readers) == {key(0), key(1)}
    assert set(readers.values()) == {"w1", "w2"}


def test_the_tables_tell_owners_workers_leader_and_what_runs_read(make_world: MakeWorld):
    world = make_world()
    world.settle()

    owner, workers, lock, claims = with_tables(
        world, lambda tables: (tables.owner(key(0)), tables.workers(), tables.lock(), tables.claims())
    )

    assert owner == "w1"
    assert [worker.worker_id for worker in workers] == ["w1"]
    assert lock is not None
    assert lock.owner == "w1"
    assert claims == {}


@pytest.mark.parametrize("name", ["shardId-000000000009", "nothing"])
def test_a_name_that_fits_no_shard_is_an_error_that_says_where_the_names_are(
    make_world: MakeWorld, name: str
):
    world = make_world()
    world.settle()
    with pytest.raises(Unknown, match="headrace status"):
        with_tables(world, lambda tables: tables.owner(name))


def test_a_shard_that_no_run_reads_moves_at_once_and_stays(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"))
    world.settle()
    giver = with_tables(world, lambda tables: tables.owner(key(0)))
    to = "w2" if giver == "w1" else "w1"

    sentence = with_tables(world, lambda tables: tables.hand_over(key(0), to))

    assert sentence == f"{key(0)} is {to}'s now"
    assert with_tables(world, lambda tables: tables.owner(key(0))) == to


def test_the_launchpad_says_of_each_field_of_spark_that_a_change_is_refused(make_world: MakeWorld):
    """Each run that may use Spark offers these fields."""
    world = make_world()
    offered = dict(world.defs.resources or {})[
        resource_key(world.settings, "spark")
    ].get_resource_definition()
    assert "refused" in (offered.description or "")
    fields = offered.config_schema.config_type.fields
    said = {name: "refused" in (field.description or "") for name, field in fields.items()}
    assert said == {"spark_config": True, "workers": True}


def test_spark_session_is_the_first_workers_and_each_worker_has_its_own(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"))
    with resource(world, "spark") as resources:
        spark: Any = getattr(resources, resource_key(world.settings, "spark"))
        assert spark.spark_session == "the Spark of w1"
        assert spark.session_of("w2") == "the Spark of w2"


def test_the_sensors_work_on_the_object_that_the_resources_hold(make_world: MakeWorld):
    world = make_world()
    assert with_tables(world, lambda tables: tables.wiring.ports) is world.ports
