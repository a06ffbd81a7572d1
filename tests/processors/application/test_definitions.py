"""What Dagster and the commands have of a processor that is an application of its own."""

import json
from pathlib import Path

import dagster as dg
import pytest

from headrace.pipeline.app.application_wiring import wire_application
from headrace.pipeline.app.wiring import NoDagster
from headrace.pipeline.building import build_definitions
from headrace.pipeline.cli import main
from headrace.pipeline.iam.places import Account, ApplicationArns
from headrace.pipeline.iam.roles import Role, statements_of
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import parse_settings, read_settings
from headrace.pipeline.settings.model import Settings

TEXT = """
application: shop
streams: [{{name: {stream}}}]
workers: [{{id: w1}}, {{id: w2}}]
landing: {{home: lake}}
processors: [{{name: words, mode: application, application: {application}, callable: "words:Words"}}]
"""


def settings_of(stream: str = "orders", application: str = "shop-words") -> Settings:
    text = TEXT.format(stream=stream, application=application)
    return parse_settings(text, {}, name="headrace.yaml").settings


def test_dagster_has_an_asset_with_a_partition_for_each_shard_a_job_and_sensors():
    definitions = build_definitions(settings_of())
    graph = definitions.resolve_asset_graph()
    node = graph.get(dg.AssetKey(["shop", "processor", "words"]))
    assert node.partitions_def == dg.DynamicPartitionsDefinition(name="shop-words_shards")
    assert node.parent_keys == {dg.AssetKey(["kinesis", "orders"])}
    repository = definitions.get_repository_def()
    job = repository.get_job("shop_words_process")
    assert {key.to_user_string() for key in job.asset_layer.selected_asset_keys} == {"shop/processor/words"}
    sensors = {sensor.name for sensor in repository.sensor_defs}
    assert {"shop_words_leader", "shop_words_worker_w1", "shop_words_worker_w2"} <= sensors
    # None of the landing application's is for it.
    assert {"shop_leader", "shop_worker_w1", "shop_worker_w2", "shop_watch"} == {
        name for name in sensors if not name.startswith("shop_words")
    }


def test_sparks_tasks_may_write_checkpoints_in_the_lease_table_of_the_processor_alone():
    places = ApplicationArns(settings_of(), Account("aws", "eu-west-1", "123456789012"))
    (checkpoints,) = (
        statement for statement in statements_of(Role.SPARK, places) if statement.sid == "Checkpoints"
    )
    assert checkpoints.resources == ("arn:aws:dynamodb:eu-west-1:123456789012:table/shop-words",)
    assert set(checkpoints.actions) == {"dynamodb:GetItem", "dynamodb:UpdateItem"}


@pytest.mark.slow
def test_commands_tell_where_the_processor_stands(
    aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    name = "commands-of-an-application"
    aws.client("kinesis").create_stream(StreamName=name, ShardCount=2)
    text = TEXT.format(stream=name, application=f"{name}-words")
    (tmp_path / "headrace.yaml").write_text(
        f'{text}aws: {{region: {aws.region}, endpoint: "{aws.endpoint}"}}\n'
    )
    monkeypatch.chdir(tmp_path)
    assert main(["processor", "status", "--json"]) == 2
    (missing,) = json.loads(capsys.readouterr().out)["processors"]
    assert "doesn't exist" in missing["error"]

    settings = read_settings(tmp_path / "headrace.yaml", {}).settings
    wiring = wire_application(settings, settings.processors[0])
    wiring.leader_turn(None)
    wiring.worker_turn("w1", None, instance="here", runs=NoDagster())

    assert main(["processor", "status", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["processors"]
    assert [shard["checkpoint"] for shard in answer["shards"]] == ["TRIM_HORIZON"] * 2
    assert main(["processor", "status"]) == 0
    assert f"words (application {name}-words): 2 shards, 0 ended" in capsys.readouterr().out
    assert main(["processor", "run", "words"]) != 0
    assert (
        f"no worker of these settings owns a lease of the application {name}-words" in capsys.readouterr().err
    )
