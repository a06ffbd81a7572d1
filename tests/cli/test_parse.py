"""`headrace parse` on a real Spark, with the settings of a user."""

from pathlib import Path

import pytest

from pipeline.cli import STOPPED, main
from pipeline.lake import read
from tests.lake.parsings import BAD, A, Bed, good

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("joined_spark"),
]

SETTINGS = """
application: typed-orders
streams: [{{name: orders}}]
aws: {{region: eu-west-1}}
landing: {{home: {home}}}
parse:
  - name: orders
    table: lake.orders
    schema: "id BIGINT, name STRING"
  - name: others
    table: lake.others
    schema: "id BIGINT"
    stream: payments
"""


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    bed = Bed(tmp_path / "home")
    (tmp_path / "headrace.yaml").write_text(SETTINGS.format(home=tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_CONFIG", raising=False)
    return bed


def test_the_command_parses_every_target_until_it_has_caught_up(bed: Bed, capsys: pytest.CaptureFixture[str]):
    bed.land(A, {1: good(1), 2: BAD}, ended=["shardId-000000000002"])
    child = A.__class__(A.stream, "shardId-000000000002")
    bed.land(child, {5: good(5)}, parents=[A.shard_id])
    assert main(["parse"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "orders: 1 row parsed, 1 set aside",
        "orders: 1 row parsed, 0 set aside",
        "others: nothing new to parse",
    ]
    bed.check()
    assert {row["name"] for row in read.rows(bed.typed()).to_pylist()} == {"n1", "n5"}
    assert main(["parse", "orders"]) == 0
    assert capsys.readouterr().out == "orders: nothing new to parse\n"
    assert main(["upkeep"]) == 0
    bed.check()


def test_a_target_that_the_settings_dont_name_is_told(bed: Bed, capsys: pytest.CaptureFixture[str]):
    assert bed.parsed is not None
    assert main(["parse", "order"]) == STOPPED
    assert "no target 'order' under `parse`; they have orders, others" in capsys.readouterr().err
