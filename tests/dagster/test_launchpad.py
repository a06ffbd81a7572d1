"""What Dagster's launchpad asks a person for, and what becomes of a wrong answer."""

import json
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import records_key
from headrace.pipeline.building import build_definitions
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld, why_failed


def _jobs(world: DagsterWorld) -> list[dg.JobDefinition]:
    repository = world.defs.get_repository_def()
    return [*repository.get_all_jobs(), world.defs.resolve_implicit_global_asset_job_def()]


def _asked_for(job: dg.JobDefinition) -> dict[str, Any]:
    """The ops' config with which the launchpad begins: required fields, and fields with a default."""
    snapshot = job.get_config_schema_snapshot()

    def of(key: str) -> dict[str, Any]:
        fields = snapshot.get_config_snap(key).fields or ()
        asked: dict[str, Any] = {}
        for field in fields:
            assert field.name is not None
            if field.default_provided and field.default_value_as_json_str is not None:
                asked[field.name] = json.loads(field.default_value_as_json_str)
            elif field.is_required:
                asked[field.name] = "required"
        return asked

    ops: dict[str, Any] = of(job.run_config_schema.config_type.key).get("ops", {})
    return ops


def test_no_job_and_no_asset_needs_a_config_so_that_materialize_all_starts_at_once(make_world: MakeWorld):
    for job in _jobs(make_world()):
        dg.validate_run_config(job, {})


def test_the_launchpad_of_the_records_shows_nothing_that_only_the_sensor_can_know(make_world: MakeWorld):
    world = make_world()
    op = "__".join(records_key(world.settings).path)
    assert _asked_for(world.job) in ({}, {op: {}}, {op: {"config": {}}})


def test_the_launchpad_of_replay_and_redrive_begins_with_all_that_a_person_may_say():
    settings = Settings(
        application="shop",
        streams=(StreamSettings(name="orders"),),
        parse=(ParseSettings(name="sold", table="lake.sold", schema="id BIGINT"),),
    )
    jobs = build_definitions(settings).get_repository_def().get_all_jobs()
    forms = {name: op["config"] for job in jobs for name, op in _asked_for(job).items() if "config" in op}
    assert forms["replay_shop"] == {
        **dict.fromkeys(("from", "to", "into", "processor", "replace", "shard", "stream", "window"), ""),
        "from_stream": False,
    }
    assert forms["redrive_shop_sold"] == {
        **dict.fromkeys(("from", "to", "reason", "shard"), ""),
        "dry_run": False,
    }


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            {"worker": 7},
            'config:worker. Value "7" of type "<class \'int\'>" is not valid for expected type "String"',
        ),
        ({"shards": "a"}, "config:shards must be list"),
        ({"shard": ["a"]}, 'unexpected config entry "shard"'),
    ],
)
def test_a_wrong_config_is_refused_before_a_run_starts_with_the_key_and_what_is_allowed(
    make_world: MakeWorld, config: dict[str, Any], told: str
):
    world = make_world()
    with pytest.raises(dg.DagsterInvalidConfigError) as refused:
        world.execute(world.config(**config))
    (error,) = refused.value.errors
    assert told in error.message
    assert len(error.message) < 500


def test_a_worker_that_the_settings_lack_is_named_with_those_that_they_have(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"))
    world.settle()
    world.world.produce(0)
    said = why_failed(world.execute(world.config(worker="w7")))
    assert said == "no worker 'w7' is configured (there are: w1, w2); nothing was read"
    assert world.world.landed() == []
