"""`headrace tables` makes and shows the coordination tables."""

import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from headrace.pipeline.cli import main


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "headrace.yaml").write_text(
        "application: my-app\nstreams: [{name: s}]\ncoordination: {create: never}\naws: {region: us-east-1}\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    with mock_aws():
        yield


def test_tables_are_created_once_and_then_described(account: None, capsys: pytest.CaptureFixture[str]):
    assert main(["tables", "describe"]) == 0
    out, _ = capsys.readouterr()
    assert out.count("doesn't exist") == 3
    assert out.endswith("layout M, three tables (as they would be created)\n"), "no migration has begun"
    assert main(["tables", "create"]) == 0
    out, err = capsys.readouterr()
    assert out == "the tables were created\n"
    assert "my-app-CoordinatorState" in err
    assert main(["tables", "create"]) == 0
    assert capsys.readouterr().out == "the tables exist already: nothing was created\n"
    assert main(["tables", "describe"]) == 0
    *lines, arranged = capsys.readouterr().out.splitlines()
    assert arranged == "layout M, three tables (table migration INIT)"
    assert [line.partition(":")[0] for line in lines] == [
        "my-app",
        "my-app-WorkerMetricStats",
        "my-app-CoordinatorState",
    ]
    assert all("ACTIVE, 0 rows when DynamoDB last counted" in line for line in lines)
    assert main(["tables", "describe", "--json"]) == 0
    assert [table["status"] for table in json.loads(capsys.readouterr().out)["tables"]] == ["ACTIVE"] * 3


def names() -> list[str]:
    found = boto3.client("dynamodb", region_name="us-east-1").list_tables()["TableNames"]
    return [name for name in found if name.startswith("my-app")]


def test_deleting_asks_for_the_applications_name(
    account: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert main(["tables", "create"]) == 0
    for typed in ("my-ap\n", "\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert main(["tables", "delete"]) != 0
        assert "Nothing was deleted" in capsys.readouterr().err
        assert len(names()) == 3
    monkeypatch.setattr("sys.stdin", io.StringIO("my-app\n"))
    assert main(["tables", "delete"]) == 0
    out, err = capsys.readouterr()
    assert "deletes my-app, my-app-WorkerMetricStats, my-app-CoordinatorState, and nothing in the lake" in err
    assert "the lake table and its positions are as they were" in out
    assert names() == []
    assert main(["tables", "delete"]) == 0
    assert capsys.readouterr().out == "there are no tables: nothing was deleted\n"


def test_without_a_terminal_the_application_has_to_be_named(
    account: None, capsys: pytest.CaptureFixture[str]
):
    assert main(["tables", "create"]) == 0
    assert main(["tables", "delete", "--application", "another"]) != 0
    assert "the application is 'my-app', not 'another'. Nothing was deleted" in capsys.readouterr().err
    assert main(["tables", "delete", "--application", "my-app"]) == 0
    assert names() == []


def test_tables_in_use_are_deleted_only_with_the_option_for_it(
    account: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert main(["tables", "create"]) == 0
    dynamodb = boto3.client("dynamodb", region_name="us-east-1")
    beats = itertools.count()

    def beat(_: float) -> None:
        row = {"wid": {"S": "w1"}, "beat": {"N": str(next(beats))}}
        dynamodb.put_item(TableName="my-app-WorkerMetricStats", Item=row)

    beat(0)
    monkeypatch.setattr("time.sleep", beat)  # a worker beats between two looks
    assert main(["tables", "delete", "--application", "my-app"]) != 0
    assert "in use: row w1" in capsys.readouterr().err
    assert len(names()) == 3
    assert main(["tables", "delete", "--application", "my-app", "--even-if-in-use"]) == 0
    assert names() == []
