"""`headrace tables` makes and shows the coordination tables."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from pipeline.cli import main


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
    assert capsys.readouterr().out.count("not there") == 3
    assert main(["tables", "create"]) == 0
    out, err = capsys.readouterr()
    assert out == "the tables were created\n"
    assert "my-app-CoordinatorState" in err
    assert main(["tables", "create"]) == 0
    assert capsys.readouterr().out == "the tables are there already: nothing was created\n"
    assert main(["tables", "describe"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "my-app",
        "my-app-WorkerMetricStats",
        "my-app-CoordinatorState",
    ]
    assert all("ACTIVE" in line for line in lines)
    assert main(["tables", "describe", "--json"]) == 0
    assert [table["status"] for table in json.loads(capsys.readouterr().out)] == ["ACTIVE"] * 3
