"""`headrace adopt` and `headrace give-back`, on a table as KCL's workers leave it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.aws.lease_item import write_lease
from pipeline.cli import main
from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.local.endpoint import LocalAws
from tests.stand_in import a_table, aws, dynamodb, kinesis

__all__ = ["aws", "dynamodb", "kinesis"]


@pytest.fixture
def application(aws: LocalAws, dynamodb, kinesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two shards; KCL's worker stood after the first of three records in one of them."""
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


def test_what_would_be_adopted_is_shown_without_writing(application: str, capsys: pytest.CaptureFixture[str]):
    assert main(["adopt", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)[0]
    assert [row["why"][:10] for row in told["shards"]] == ["goes on af", "starts at "]
    assert told["unproven"] == []
    assert main(["lineage"]) == 0
    assert "no range has landed" in capsys.readouterr().out


def test_a_stopped_application_is_adopted_and_given_back(
    application: str, dynamodb, capsys: pytest.CaptureFixture[str]
):
    assert main(["adopt", "--watch", "50ms"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 0
    assert "1 positions adopted" in capsys.readouterr().out
    assert main(["adopt", "--watch", "50ms", "--yes"]) == 2
    assert "already" in capsys.readouterr().err
    assert main(["give-back", "--yes"]) == 2
    assert "kcl-1 still hold leases" in capsys.readouterr().err
    for n in range(2):
        dynamodb.update_item(
            TableName=application,
            Key={"leaseKey": {"S": f"shardId-{n:012d}"}},
            UpdateExpression="REMOVE leaseOwner",
        )
    assert main(["give-back", "--yes"]) == 0
    assert "KCL's workers may start" in capsys.readouterr().out


def test_an_application_that_still_beats_is_refused(
    application: str, dynamodb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def a_worker_renews(_seconds: float) -> None:
        dynamodb.update_item(
            TableName=application,
            Key={"leaseKey": {"S": "shardId-000000000000"}},
            UpdateExpression="ADD leaseCounter :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    monkeypatch.setattr("pipeline.cli.adopt.time.sleep", a_worker_renews)
    assert main(["adopt", "--watch", str(timedelta(seconds=30).seconds), "--yes"]) == 2
    assert "kcl-1 still moved lease rows" in capsys.readouterr().err
    file = Path("headrace.yaml")
    joined = "{kcl_failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}"
    file.write_text(file.read_text(encoding="utf-8") + f"coordination: {joined}\n", encoding="utf-8")
    assert main(["adopt", "--yes"]) == 0, "who joins a live fleet takes in what it reads meanwhile"
