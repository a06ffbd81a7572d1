"""`headrace consumer` lists, registers and deregisters consumers, and ends none by which a fleet reads."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.local.endpoint import LocalAws

Write = Callable[[str], None]


@pytest.fixture
def stream(aws: LocalAws) -> str:
    name = f"s-{uuid.uuid4().hex[:12]}"
    aws.client("kinesis").create_stream(StreamName=name, ShardCount=1)
    return name


@pytest.fixture
def app(stream: str) -> str:
    return f"app-{stream}"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aws: LocalAws, stream: str, app: str) -> Write:
    monkeypatch.chdir(tmp_path)

    def write(retrieval: str) -> None:
        (tmp_path / "headrace.yaml").write_text(
            f"application: {app}\nstreams: [{{name: {stream}, retrieval: {retrieval}}}]\n"
            f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
            encoding="utf-8",
        )

    return write


def test_a_consumer_is_registered_listed_and_deregistered(
    write: Write, stream: str, app: str, capsys: pytest.CaptureFixture[str]
):
    write("polling")
    assert main(["consumer", "list"]) == 0
    assert capsys.readouterr().out == f"{stream}: no consumer\n"
    assert main(["consumer", "register"]) == 0
    assert f"{stream}: the consumer {app} is ACTIVE" in capsys.readouterr().out
    assert main(["consumer", "list"]) == 0
    assert f"{stream}: {app} ACTIVE, registered 20" in capsys.readouterr().out
    assert main(["consumer", "deregister"]) == 0
    assert "was deregistered" in capsys.readouterr().out
    assert main(["consumer", "deregister", "--name", "never-there"]) == 0
    assert "there is no consumer never-there" in capsys.readouterr().out
    assert main(["consumer", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["consumers"] == []


def test_a_consumer_of_the_settings_is_deregistered_only_by_force(
    write: Write, stream: str, app: str, capsys: pytest.CaptureFixture[str]
):
    write("fanout")
    main(["consumer", "register"])
    capsys.readouterr()
    assert main(["consumer", "deregister"]) == 2
    assert "these settings read the stream by the consumer" in capsys.readouterr().err
    assert main(["consumer", "list", "--json"]) == 0
    (consumer,) = json.loads(capsys.readouterr().out)["consumers"]
    assert (consumer["name"], consumer["status"], consumer["used_by_these_settings"]) == (app, "ACTIVE", True)
    assert main(["consumer", "deregister", "--even-if-in-use"]) == 0
    out, err = capsys.readouterr()
    assert "was deregistered" in out
    assert "these settings read the stream by the consumer" in err


def test_the_consumer_of_a_processors_application_is_one_of_the_settings(
    write: Write, tmp_path: Path, stream: str, app: str, capsys: pytest.CaptureFixture[str]
):
    write("fanout")
    with (tmp_path / "headrace.yaml").open("a", encoding="utf-8") as file:
        file.write(
            "processors: [{name: totals, mode: application, application: totals-app, callable: 'a:b'}]\n"
        )
    assert main(["consumer", "register"]) == 0
    out = capsys.readouterr().out
    assert f"the consumer {app} is ACTIVE" in out
    assert "the consumer totals-app is ACTIVE" in out
    assert main(["consumer", "list", "--json"]) == 0
    consumers = json.loads(capsys.readouterr().out)["consumers"]
    assert {consumer["name"]: consumer["used_by_these_settings"] for consumer in consumers} == {
        app: True,
        "totals-app": True,
    }
    assert main(["consumer", "deregister", "--name", "totals-app"]) == 2
    assert "these settings read the stream by the consumer" in capsys.readouterr().err


def test_the_consumer_of_a_kcl_fleet_is_deregistered_only_by_force(
    write: Write, aws: LocalAws, stream: str, capsys: pytest.CaptureFixture[str]
):
    write("polling")
    fleet = f"kcl-{stream}"
    dynamodb = aws.client("dynamodb")
    dynamodb.create_table(
        TableName=fleet,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    lease = {"leaseKey": {"S": "shardId-000000000000"}, "checkpoint": {"S": "TRIM_HORIZON"}}
    dynamodb.put_item(TableName=fleet, Item=lease | {"leaseOwner": {"S": "java-worker"}})
    main(["consumer", "register", "--name", fleet])
    capsys.readouterr()

    assert main(["consumer", "deregister", "--name", fleet]) == 2
    assert "leases that java-worker owns" in capsys.readouterr().err
    dynamodb.put_item(TableName=fleet, Item=lease)
    assert main(["consumer", "deregister", "--name", fleet]) == 0


def test_a_name_beside_kcl_is_refused_where_it_is_the_fleets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    shared = "kcl: {failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}\n"
    text = "application: shop\nstreams: [{name: orders, retrieval: fanout}]\naws: {region: eu-west-1}\n"
    (tmp_path / "headrace.yaml").write_text(text + shared, encoding="utf-8")
    assert main(["consumer", "list"]) == 2
    assert "is the consumer of the KCL fleet of that name" in capsys.readouterr().err
