"""`headrace iam` prints a policy for the settings at hand, and says what it lacks where it can't."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.cli import main

ARN = "arn:aws-cn:kinesis:cn-north-1:111122223333:stream/orders"


def printed(capsys: pytest.CaptureFixture[str], folder: Path, yaml: str, *words: str) -> dict[str, list[str]]:
    """Each action of the policy -> its resources."""
    (folder / "headrace.yaml").write_text(yaml)
    assert main(["iam", "--config", str(folder / "headrace.yaml"), *words]) == 0
    statements = json.loads(capsys.readouterr().out)["Statement"]
    assert len({each["Sid"] for each in statements}) == len(statements)
    return {action: each["Resource"] for each in statements for action in each["Action"]}


def test_account_region_and_partition_come_from_a_streams_arn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rights = printed(
        capsys, tmp_path, f"{{application: shop, streams: [{{name: '{ARN}'}}]}}", "--role", "reader"
    )
    assert rights["kinesis:ListShards"] == [ARN]
    assert rights["dynamodb:Scan"][0] == "arn:aws-cn:dynamodb:cn-north-1:111122223333:table/shop"


def test_the_consumer_of_a_processors_application_is_reached_as_that_of_the_lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    yaml = (
        "{application: shop, streams: [{name: orders, retrieval: fanout}, {name: clicks}], streams_mode: multi, "
        "aws: {region: eu-west-1}, processors: "
        "[{name: totals, mode: application, application: totals-app, stream: orders, callable: 'a:b'}]}"
    )
    stream = "arn:aws:kinesis:eu-west-1:111111111111:stream/orders"
    consumers = [f"{stream}/consumer/{name}:*" for name in ("shop", "totals-app")]
    spark = printed(capsys, tmp_path, yaml, "--role", "spark", "--account", "1" * 12)
    assert spark["kinesis:SubscribeToShard"] == consumers
    leader = printed(capsys, tmp_path, yaml, "--role", "leader", "--account", "1" * 12)
    assert leader["kinesis:DescribeStreamConsumer"] == consumers
    assert leader["kinesis:RegisterStreamConsumer"] == [stream]


def test_a_lake_on_local_files_needs_no_right_on_s3_or_glue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    yaml = "{application: shop, streams: [{name: orders}], aws: {region: eu-west-1}}"
    rights = printed(capsys, tmp_path, yaml, "--role", "leader", "--role", "worker", "--account", "1" * 12)
    assert {action.partition(":")[0] for action in rights} == {"kinesis", "dynamodb"}
    assert rights["dynamodb:Query"] == [
        "arn:aws:dynamodb:eu-west-1:111111111111:table/shop/index/LeaseOwnerToLeaseKeyIndex"
    ]


def test_tables_that_others_make_need_no_right_to_make_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    yaml = "{application: shop, streams: [{name: s}], aws: {region: eu-west-1}, coordination: {create: %s}}"
    may = {
        how: "dynamodb:CreateTable"
        in printed(capsys, tmp_path, yaml % how, "--role", "leader", "--account", "1" * 12)
        for how in ("auto", "never")
    }
    assert may == {"auto": True, "never": False}


def test_only_the_upkeep_role_may_delete_an_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    yaml = (
        "{application: shop, streams: [{name: s}], aws: {region: eu-west-1}, landing: {table: lake.s, "
        "catalog: {type: glue, warehouse: 's3://lake/w'}, state: 's3://lake/s'}}"
    )
    may = {
        role: "s3:DeleteObject" in printed(capsys, tmp_path, yaml, "--role", role, "--account", "1" * 12)
        for role in ("leader", "worker", "spark", "upkeep", "reader")
    }
    assert [role for role, deletes in may.items() if deletes] == ["upkeep"]


def test_who_drives_migrations_needs_no_right_but_on_the_coordination_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    yaml = "{application: shop, streams: [{name: s}], aws: {region: eu-west-1}}"
    rights = printed(capsys, tmp_path, yaml, "--role", "migrate", "--account", "1" * 12)
    place = "arn:aws:dynamodb:eu-west-1:111111111111:table/shop"
    assert rights["dynamodb:UpdateTable"] == [place]
    assert rights["dynamodb:DeleteItem"] == [place, f"{place}-CoordinatorState"]
    assert {where for places in rights.values() for where in places} == {
        place,
        f"{place}-CoordinatorState",
        f"{place}-WorkerMetricStats",
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--region", "eu-west-1"), "name the account by --account"),
        (("--account", "1" * 12), "set aws.region"),
    ],
)
def test_without_an_account_or_a_region_no_policy_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
):
    (tmp_path / "headrace.yaml").write_text("{application: shop, streams: [{name: orders}]}")
    assert main(["iam", "--config", str(tmp_path / "headrace.yaml"), "--role", "spark", *words]) == 2
    answer = capsys.readouterr()
    assert (answer.out, told in answer.err) == ("", True)


def test_roles_of_services_may_be_assumed_and_tables_are_where_their_block_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tables, reader = "arn:aws:iam::222222222222:role/tables", "arn:aws:iam::333333333333:role/reader"
    yaml = (
        f"{{application: shop, streams: [{{name: s, role: '{reader}'}}], aws: {{region: eu-west-1, "
        f"dynamodb: {{region: eu-central-1, role: '{tables}'}}}}}}"
    )
    rights = {
        role: printed(capsys, tmp_path, yaml, "--role", role, "--account", "1" * 12)
        for role in ("leader", "spark", "upkeep")
    }
    assert set(rights["leader"]["sts:AssumeRole"]) == {reader, tables}
    assert rights["spark"]["sts:AssumeRole"] == [reader]
    assert "sts:AssumeRole" not in rights["upkeep"]
    assert rights["leader"]["kinesis:ListShards"] == ["arn:aws:kinesis:eu-west-1:333333333333:stream/s"]
    assert rights["leader"]["dynamodb:Scan"][0] == "arn:aws:dynamodb:eu-central-1:222222222222:table/shop"
