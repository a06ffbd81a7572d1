"""Two real applications land one stream in one Iceberg table by mistake: `headrace status` of both names the other one."""

import json
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.cli import main
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

SHARD = "shardId-000000000000"


def lead(file: Path) -> str:
    return str(wire(read_settings(str(file), {}).settings).leader().tick(LeaderMemory()))


def findings(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    capsys.readouterr()
    assert main(["status", "--config", str(file), "--json"]) == 0
    return {each["code"]: each["sentence"] for each in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.usefixtures("joined_spark")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_both_applications_name_each_other_and_the_table_has_each_record_once(
    aws: LocalAws,
    dynamodb: "DynamoDBClient",
    kinesis: "KinesisClient",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    for variable, value in aws.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    stream, names = f"t-{uuid4().hex[:8]}", [f"t-{uuid4().hex[:8]}" for _ in range(2)]
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    files = []
    for name in names:
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            f"application: {name}\nstreams: [{{name: {stream}}}]\naws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
            encoding="utf-8",
        )
        DynamoTables(dynamodb, read_settings(str(file), {}).settings).create()
        lead(file)
        files.append(file)
    for turn, file in enumerate([*files, *files]):
        assert all("leader-tells" not in findings(each, capsys) for each in files), f"turn {turn}"
        kinesis.put_record(StreamName=stream, Data=b"{}", PartitionKey="k")
        assert main(["consume", "--config", str(file), "--shard", SHARD]) == 0
        assert "1 record landed" in capsys.readouterr().out
        if turn < 3:
            assert "another application" not in lead(file)
    for file, other in zip(files, names[::-1], strict=True):
        assert f"another application lands the same stream in this table: {other} ({stream}; last at" in lead(
            file
        )
        assert findings(file, capsys)["leader-tells"].startswith("another application lands the same stream")
        assert main(["prove", "--config", str(file)]) == 0
        assert "proved: 4 records of 1 shard" in capsys.readouterr().out
