"""`headrace shadow` through a real Spark: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.cli import DONE, STOPPED, main
from tests.docs.reading_table import HOME, make_table

ROWS = [(0, 98, 5), (0, 99, 10), (0, 100, 20), (1, 7, 30), (1, 8, 40)]


@pytest.mark.slow
@pytest.mark.usefixtures("joined_spark")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_shadow_compares_on_the_spark_of_the_first_worker_and_its_exit_code_says_whether_all_is_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.chdir(tmp_path)
    make_table(tmp_path)
    Path("headrace.yaml").write_text(
        "application: orders\nstreams: [{name: orders}]\naws: {region: eu-west-1}\n"
        f"landing: {{table: lake.orders, home: '{tmp_path / HOME}'}}\n"
    )
    rows = [
        {
            "shard_id": f"shardId-{shard:012}",
            "sequence_number": str(number),
            "data": json.dumps({"order": number, "amount": amount}),
        }
        for shard, number, amount in ROWS
    ]
    path = tmp_path / "output.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    words = ["shadow", "--files", str(path), "--data", "data"]
    assert main(words) == DONE, capsys.readouterr()
    assert capsys.readouterr().out.splitlines()[-1].startswith("equal: 5 records of 2 shards are the same")
    path.write_text("\n".join(map(json.dumps, rows[1:])))
    assert main(words) == 1
    assert "shardId-000000000000 98: only here" in capsys.readouterr().out


def test_one_other_side_has_to_be_named(capsys: pytest.CaptureFixture[str]):
    for words in (["shadow"], ["shadow", "--files", "a.csv", "--table", "lake.a"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == STOPPED
    assert main(["shadow", "--files", "a.csv", "--from", "2026-02-01", "--to", "2026-01-31"]) == STOPPED
    assert "allowed: a time after --from" in capsys.readouterr().err
