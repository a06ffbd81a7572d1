"""`headrace adopt` and `headrace give-back`, on a lease table as KCL's workers leave it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.aws.leases.lease_item import write_lease
from headrace.pipeline.cli import main
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings
from tests.stand_in import a_table


@pytest.fixture
def application(aws: LocalAws, dynamodb, kinesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stream with two shards. In one of them KCL's worker has checkpointed the first of three records."""
    name = a_table(dynamodb, "leaseKey")
    kinesis.create_stream(StreamName=name, ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    first = kinesis.put_record(StreamName=name, Data=b"a", PartitionKey="k", ExplicitHashKey="0")
    for data in (b"b", b"c"):
        kinesis.put_record(StreamName=name, Data=data, PartitionKey="k", ExplicitHashKey="0")
    for n, stands in enumerate((Checkpoint(first["SequenceNumber"]), Checkpoint("TRIM_HORIZON"))):
        lease = Lease(f"shardId-{n:012d}", 7, stands, owner="kcl-1")
        dynamodb.put_item(TableName=name, Item=write_lease(lease, entity_type=False))
    for variable, value in aws.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    Path("headrace.yaml").write_text(
        f"application: {name}\nstreams: [{{name: {name}}}]\naws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
        encoding="utf-8",
    )
    return name


def test_without_a_confirmation_adopt_shows_the_positions_and_writes_nothing(
    application: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["adopt", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["streams"][0]
    assert [row["why"][:10] for row in told["shards"]] == ["goes on af", "starts at "]
    assert told["unproven"] == []
    assert main(["lineage"]) == 0
    assert "no range of records has landed" in capsys.readouterr().out


def test_a_lease_table_that_isnt_there_isnt_adopted_and_nothing_is_made(
    application: str, capsys: pytest.CaptureFixture[str]
):
    settings = Path("headrace.yaml")
    settings.write_text(settings.read_text().replace(f"application: {application}", "application: mistyped"))
    assert main(["adopt", "--json"]) == 2
    told = capsys.readouterr().err
    assert "there is nothing to adopt: no lease table mistyped is in this account and region" in told
    assert main(["lineage"]) == 2
    assert "isn't in the catalog" in capsys.readouterr().err


def test_a_stopped_application_is_adopted_and_given_back(
    application: str, dynamodb, capsys: pytest.CaptureFixture[str]
):
    assert main(["adopt", "--watch", "50ms"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 0
    assert "1 position adopted" in capsys.readouterr().out
    assert main(["adopt"]) == 0
    out, err = capsys.readouterr()
    assert (
        f"{application}: nothing to adopt, the lake table already has the positions of its lease rows" in out
    )
    assert "no stream is left to adopt; nothing was changed" in out
    assert "watching the lease rows" not in err
    assert main(["give-back", "--watch", "50ms", "--yes"]) == 0
    out, err = capsys.readouterr()
    assert "kcl-1 still hold leases: watching for 0 s" in err
    assert "kcl-1: no beat seen; the leases of these workers are given back, too" in err
    assert "KCL's workers may start" in out
    rows = dynamodb.scan(TableName=application)["Items"]
    assert not any("leaseOwner" in row for row in rows)


def test_give_back_is_refused_while_leases_are_renewed(
    application: str, dynamodb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 0

    def a_worker_renews(_seconds: float) -> None:
        dynamodb.update_item(
            TableName=application,
            Key={"leaseKey": {"S": "shardId-000000000000"}},
            UpdateExpression="ADD leaseCounter :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    monkeypatch.setattr("headrace.pipeline.cli.give_back.time.sleep", a_worker_renews)
    assert main(["give-back", "--yes"]) == 2
    assert "kcl-1 still hold leases" in capsys.readouterr().err


def test_give_back_is_refused_while_a_workers_row_is_beaten(
    application: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 0
    beat = iter(range(1, 100))
    monkeypatch.setattr(
        "headrace.pipeline.cli.give_back.beats_of", lambda _, names: dict.fromkeys(names, next(beat))
    )
    assert main(["give-back", "--watch", "50ms", "--yes"]) == 2
    assert "kcl-1 still hold leases" in capsys.readouterr().err


def test_adopting_an_application_whose_leases_are_renewed_is_refused(
    application: str, dynamodb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def a_worker_renews(_seconds: float) -> None:
        dynamodb.update_item(
            TableName=application,
            Key={"leaseKey": {"S": "shardId-000000000000"}},
            UpdateExpression="ADD leaseCounter :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    monkeypatch.setattr("headrace.pipeline.cli.adopt.time.sleep", a_worker_renews)
    assert main(["adopt", "--watch", str(timedelta(seconds=30).seconds), "--yes"]) == 2
    assert "the KCL workers kcl-1 still renew their leases" in capsys.readouterr().err
    file = Path("headrace.yaml")
    joined = "{failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}"
    file.write_text(file.read_text(encoding="utf-8") + f"kcl: {joined}\n", encoding="utf-8")
    assert main(["adopt", "--yes"]) == 0, (
        "with allow_foreign_checkpoints the records that the fleet reads meanwhile are taken in"
    )


def test_give_back_with_the_wrong_lake_table_is_refused_and_makes_no_table(
    application: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert main(["adopt", "--json"]) == 0, "adopt makes the table"
    assert main(["give-back", "--yes"]) == 2
    assert "holds no positions: does landing.table name the table" in capsys.readouterr().err
    monkeypatch.setenv("HEADRACE__LANDING__TABLE", "lake.recrods")
    for _ in range(2):
        assert main(["give-back", "--json"]) == 2
        assert "lake.recrods isn't in the catalog" in capsys.readouterr().err


@pytest.fixture
def two_streams(application: str, dynamodb, kinesis) -> str:
    """Two streams as KCL's multi-stream mode leaves them, and a third one that was deleted. The settings name only
    the first."""
    file = Path("headrace.yaml")
    file.write_text(file.read_text(encoding="utf-8") + "streams_mode: multi\n", encoding="utf-8")
    for n in range(2):
        dynamodb.delete_item(TableName=application, Key={"leaseKey": {"S": f"shardId-{n:012d}"}})
    other = f"{application}-other"
    kinesis.create_stream(StreamName=other, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=other, WaiterConfig={"Delay": 1})
    for name in (application, other):
        facts = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
        life = f"123456789012:{name}:{int(facts['StreamCreationTimestamp'].timestamp())}"
        a_row_of(life, application, dynamodb)
    a_row_of("123456789012:gone:1700000000", application, dynamodb)
    return other


def test_an_adoption_that_died_between_two_streams_goes_on_with_the_next_stream(
    application: str, two_streams: str, dynamodb, capsys: pytest.CaptureFixture[str]
):
    for row in dynamodb.scan(TableName=application)["Items"]:
        dynamodb.update_item(
            TableName=application,
            Key={"leaseKey": row["leaseKey"]},
            UpdateExpression="SET checkpoint = :latest",
            ExpressionAttributeValues={":latest": {"S": "LATEST"}},
        )
    adopting = wire(read_settings("headrace.yaml", {}).settings).decisions.adopting()
    adopting.table.ensure(create=True)
    assert adopting.land(adopting.survey(application, timestamp=None), run="headrace adopt") == 1
    assert main(["adopt", "--json"]) == 0
    assert [each["stands"] for each in json.loads(capsys.readouterr().out)["streams"]] == [True, False]
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 0
    out = capsys.readouterr().out
    assert f"{application}: nothing to adopt" in out
    assert f"{application}: 1 position adopted" not in out
    assert f"{two_streams}: 1 position adopted" in out
    assert main(["adopt", "--yes"]) == 0
    assert "no stream is left to adopt" in capsys.readouterr().out


def test_joining_a_fleet_goes_on_after_the_command_died_between_two_streams_though_the_fleet_has_read_on(
    application: str, two_streams: str, dynamodb, kinesis, capsys: pytest.CaptureFixture[str]
):
    file = Path("headrace.yaml")
    joined = "{failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}"
    file.write_text(file.read_text(encoding="utf-8") + f"kcl: {joined}\n", encoding="utf-8")
    adopting = wire(read_settings("headrace.yaml", {}).settings).decisions.adopting()
    adopting.table.ensure(create=True)
    adopting.land(adopting.survey(application, timestamp=None), run="headrace adopt")
    read = kinesis.put_record(StreamName=application, Data=b"d", PartitionKey="k", ExplicitHashKey="0")
    (key,) = [
        row["leaseKey"]
        for row in dynamodb.scan(TableName=application)["Items"]
        if f":{application}:" in row["leaseKey"]["S"]
    ]
    moves = {"UpdateExpression": "SET checkpoint = :read ADD leaseCounter :one", "TableName": application}
    stands = {":read": {"S": read["SequenceNumber"]}, ":one": {"N": "1"}}
    dynamodb.update_item(Key={"leaseKey": key}, ExpressionAttributeValues=stands, **moves)
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 0
    out = capsys.readouterr().out
    assert f"{application}: nothing to adopt, the lake table adopted this stream before" in out
    assert f"{application}: 0 positions adopted" not in out
    assert f"{two_streams}: 0 positions adopted" in out


def a_row_of(life: str, table: str, dynamodb) -> None:
    key = f"{life}:shardId-000000000000"
    lease = Lease(key, 7, Checkpoint("TRIM_HORIZON"), stream=life, shard="shardId-000000000000")
    dynamodb.put_item(TableName=table, Item=write_lease(lease, entity_type=False))


def test_streams_known_only_from_lease_rows_are_adopted_and_given_back_too(
    application: str, two_streams: str, dynamodb, capsys: pytest.CaptureFixture[str]
):
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 0
    out, err = capsys.readouterr()
    assert f"{application}: 0 positions adopted" in out
    assert f"{two_streams}: 0 positions adopted" in out
    assert "gone:1700000000: Kinesis has no such stream any more" in err
    rows = dynamodb.scan(TableName=application)["Items"]
    (key,) = [row["leaseKey"] for row in rows if f":{two_streams}:" in row["leaseKey"]["S"]]
    dynamodb.update_item(
        TableName=application,
        Key={"leaseKey": key},
        UpdateExpression="SET leaseOwner = :w",
        ExpressionAttributeValues={":w": {"S": "w1"}},
    )
    assert main(["give-back", "--watch", "50ms", "--json"]) == 0
    assert "w1: no beat" in capsys.readouterr().err
