"""`headrace parse` on a real Spark, with the settings of a user."""

import json
import re
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.projects import enter_project, settings_in
from tests.typed.parsings import BAD, A, B, Bed, good

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("joined_spark"),
]

TARGETS = """
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
    enter_project(tmp_path, monkeypatch, settings_in(tmp_path, TARGETS))
    return bed


def test_the_command_parses_every_target_until_it_has_caught_up(
    bed: Bed, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    bed.land(A, {1: good(1), 2: BAD}, ended=["shardId-000000000002"])
    child = A.__class__(A.stream, "shardId-000000000002")
    bed.land(child, {5: good(5)}, parents=[A.shard_id])
    assert main(["parse"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "orders: 1 row parsed, 1 set aside",
        "orders: 1 row parsed, 0 set aside",
        "others: nothing new to parse",
    ]
    assert said.err.splitlines() == [
        (
            "orders: what was set aside is in lake.orders_quarantine, whose column `reason` tells why; correct the schema or the code, and "
            "`headrace redrive --target orders` parses it again"
        ),
        "others: the lake table has no stream that the target takes; it has orders",
    ]
    bed.check()
    assert {row["name"] for row in read.rows(bed.typed()).to_pylist()} == {"n1", "n5"}
    assert main(["parse", "orders"]) == 0
    assert capsys.readouterr().out == "orders: nothing new to parse\n"
    # A change that the table's rows don't allow is told before the next record comes, too.
    config = tmp_path / "headrace.yaml"
    before = config.read_text()
    config.write_text(before.replace("id BIGINT, name", "id STRING, name", 1))
    assert main(["parse", "orders"]) == STOPPED
    assert "the column id of lake.orders is long, and the parser now gives string" in capsys.readouterr().err
    config.write_text(before)
    assert main(["lineage", "--target", "orders", "--csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(",parsed,quarantined,dropped,version,schema,code")
    assert re.search(
        r",1,1,,1,\d+,\"json of headrace \S+, code [0-9a-f]{12}, schema [0-9a-f]{12}\"$", lines[1]
    )
    _tells_what_became_of_each(capsys)
    record = json.loads(told(capsys, "lineage", "--sequence", "2", "--json"))
    ((found,),) = [each["found_in"] for each in record["parsed"]]
    assert (found["table"], found["rows"]) == ("lake.orders_quarantine", 1)
    assert found["reasons"] == ["the payload isn't one JSON object that fits the schema"]
    ledger = json.loads(told(capsys, "lineage", "--target", "orders", "--limit", "1", "--json"))
    assert (ledger["table"], ledger["left_out"]) == ("lake.orders", 1)
    assert [(each["stream"], each["parsed"], each["quarantined"]) for each in ledger["ranges"]] == [
        ("orders", 1, 0)
    ]
    assert json.loads(told(capsys, "parse", "--infer", "--json", "orders"))["targets"] == [
        {"target": "orders", "records": 2, "schema": "id BIGINT, name STRING"}
    ]
    assert main(["parse", "orders", "--infer"]) == 0
    assert capsys.readouterr().out == "id BIGINT, name STRING\n"
    assert main(["upkeep"]) == 0
    bed.check()


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints as its answer."""
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_waves_are_limited_and_told_as_json(bed: Bed, capsys: pytest.CaptureFixture[str]):
    child = A.__class__(A.stream, "shardId-000000000002")
    bed.land(A, {1: good(1), 2: BAD}, ended=[child.shard_id])
    bed.land(child, {5: good(5)}, parents=[A.shard_id])
    target = {"target": "orders", "table": "lake.orders", "quarantine": "lake.orders_quarantine"}
    first = json.loads(told(capsys, "parse", "orders", "--limit", "1", "--json"))
    counts = {"waves": 1, "parsed": 1, "set_aside": 1, "dropped": {}, "is_behind": True, "notes": []}
    assert first == {"format": 1, "targets": [{**target, **counts}]}
    (rest,) = json.loads(told(capsys, "parse", "orders", "--json"))["targets"]
    assert (rest["waves"], rest["parsed"], rest["set_aside"], rest["is_behind"]) == (1, 1, 0, False)
    (nothing,) = json.loads(told(capsys, "parse", "orders", "--json"))["targets"]
    assert (nothing["waves"], nothing["parsed"], nothing["is_behind"]) == (0, 0, False)
    (again,) = json.loads(
        told(capsys, "redrive", "--target", "orders", "--dry-run", "--json", "--reason", "one JSON")
    )["targets"]
    assert again == {
        **target,
        "portions": 1,
        "parsed_again": 1,
        "mended": 0,
        "still_set_aside": 1,
        "dropped": {},
    }
    assert main(["parse", "--infer", "--limit", "1"]) == STOPPED
    bed.check()


def _tells_what_became_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    told = {}
    for number in "123":
        assert main(["lineage", "--sequence", number, "--shard", A.shard_id]) == (1 if number == "3" else 0)
        told[number] = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(
        r"  the record is now in lake\.orders: 1 row, in \S+\.parquet, which snapshot \d+ added", told["1"]
    )
    assert told["2"].startswith("  the record is now in lake.orders_quarantine: 1 row, in ")
    assert told["2"].endswith(
        " added; set aside because the payload isn't one JSON object that fits the schema"
    )
    assert (
        told["3"]
        == "no range of shardId-000000000000 has the sequence number 3: such a record has not landed, and no gap names it"
    )


def test_settings_that_can_be_used_are_told_without_spark_and_nothing_is_made(
    bed: Bed, capsys: pytest.CaptureFixture[str]
):
    assert main(["parse", "--check"]) == 0
    told = "the schema and the code can be used; nothing was read or written"
    assert capsys.readouterr().out.splitlines() == [f"orders: {told}", f"others: {told}"]
    assert not bed.typed().exists()


@pytest.mark.parametrize("option", [["--json"], ["--limit", "1"]])
def test_a_check_with_an_option_that_it_cant_follow_is_refused(
    bed: Bed, capsys: pytest.CaptureFixture[str], option: list[str]
):
    assert main(["parse", "--check", *option]) == STOPPED
    said = capsys.readouterr()
    assert said.out == ""
    assert "--json and --limit can't go with it; nothing was read" in said.err
    assert not bed.typed().exists()


def test_a_check_and_the_settings_of_a_schema_in_avro_make_no_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    record = """'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'"""
    text = settings_in(tmp_path, TARGETS).replace('"id BIGINT"', f"{record}\n    format: avro")
    enter_project(tmp_path, monkeypatch, text)
    assert main(["parse", "--check"]) == main(["config"]) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["headrace.yaml"]
    (tmp_path / "headrace.yaml").write_text(text.replace('"a"', '"Shard_Id"'))
    capsys.readouterr()
    assert main(["parse", "--check"]) == main(["config"]) == STOPPED
    said = capsys.readouterr()
    assert said.out.startswith("orders: the schema and the code can be used")
    assert (
        said.err.count(
            "others has a column Shard_Id: Headrace itself gives a column of this name to the table"
        )
        == 2
    )


_NO_RECORD = """schema: '{"type": "int"}'\n    format: avro"""
_NO_MODULE = "schema: id INT\n    format: callable\n    callable: own:rows"


@pytest.mark.parametrize("how", [["--check"], []])
@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("schema: id BIGINTT", r"headrace\.yaml:9: .* at 'BIGINTT'"),
        (_NO_RECORD, "the outermost type isn't a record"),
        (_NO_MODULE, r"No module named 'own'.*headrace\.yaml:11"),
    ],
)
def test_a_schema_that_cant_be_used_is_told_with_nothing_to_parse_and_no_table_is_made(
    bed: Bed, capsys: pytest.CaptureFixture[str], tmp_path: Path, how: list[str], lines: str, why: str
):
    config = tmp_path / "headrace.yaml"
    config.write_text(config.read_text().replace('schema: "id BIGINT, name STRING"', lines))
    assert main(["parse", "orders", *how]) == STOPPED
    assert re.search(why, capsys.readouterr().err)
    assert not bed.typed().exists()
    assert not bed.quarantine().exists()
    # The code of the user isn't run where settings are only shown.
    assert main(["config"]) == (0 if lines == _NO_MODULE else STOPPED)


@pytest.mark.slow
def test_records_in_quarantine_are_parsed_again_by_the_present_schema(
    bed: Bed, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    wrong = b'{"id": "two", "name": "n2"}'
    bed.land(A, {1: good(1), 2: wrong, 3: BAD})
    bed.land(B, {10: wrong, 11: wrong})
    assert main(["parse", "orders"]) == 0
    config = tmp_path / "headrace.yaml"
    config.write_text(config.read_text().replace("id BIGINT, name STRING", "name STRING"))
    capsys.readouterr()
    assert main(["redrive", "--shard", A.shard_id, "--target", "orders", "--dry-run"]) == 0
    assert main(["redrive", "--shard", A.shard_id, "--target", "orders"]) == 0
    told = "2 rows parsed again: 1 mended, 1 still set aside"
    assert capsys.readouterr().out.splitlines() == [
        f"orders: dry run, nothing was committed: {told}",
        f"orders: {told}",
    ]
    bed.check()
    assert main(["redrive", "--reason", "no such reason"]) == 0
    reasons = "has this reason and can be parsed again; the table's column `reason` has the reasons"
    assert main(["redrive"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"orders: no record in lake.orders_quarantine {reasons}",
        f"others: no record in lake.others_quarantine {reasons}",
        "orders: 3 rows parsed again: 2 mended, 1 still set aside",
        "others: no record in lake.others_quarantine can be parsed again",
    ]
    bed.check()
    assert main(["upkeep"]) == 0
    bed.check()
    rows = read.rows(bed.typed()).to_pylist()
    assert sorted(row["name"] for row in rows) == ["n1", "n2", "n2", "n2"]
    assert main(["redrive", "--target", "orders", "--shard", "shardId-7"]) == STOPPED
    assert "has no shard shardId-7" in capsys.readouterr().err


def test_where_nothing_has_landed_yet_no_table_is_made_and_the_reason_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    enter_project(tmp_path, monkeypatch, settings_in(tmp_path, TARGETS))
    assert main(["parse", "orders"]) == 0
    said = capsys.readouterr()
    assert said.out == "orders: nothing new to parse\n"
    assert said.err == (
        "orders: there is no lake table yet; `headrace dev`, or another deployment, makes it before the first records land\n"
    )


def test_a_target_that_the_settings_dont_name_is_told(bed: Bed, capsys: pytest.CaptureFixture[str]):
    assert bed.parsed is not None
    assert main(["parse", "order"]) == STOPPED
    assert "no target 'order' under `parse`; they have orders, others" in capsys.readouterr().err
    assert main(["lineage", "--target", "order"]) == STOPPED
    assert "they have orders, others. Nothing was read" in capsys.readouterr().err


def test_a_shard_that_isnt_there_is_told_also_of_a_target(
    bed: Bed, capsys: pytest.CaptureFixture[str], aws: LocalAws, tmp_path: Path
):
    config = tmp_path / "headrace.yaml"
    local = f'aws: {{region: {aws.region}, endpoint: "{aws.endpoint}"}}'
    application = f"a-{uuid4().hex[:8]}"
    text = config.read_text().replace("aws: {region: eu-west-1}", local)
    config.write_text(text.replace("typed-orders", application))
    assert main(["tables", "create"]) == 0
    bed.land(A, {1: good(1)})
    bed.catch_up()
    bed.land(B, {2: good(2)})
    capsys.readouterr()
    assert main(["lineage", "--target", "orders", "--shard", A.shard_id]) == 0
    assert A.shard_id in capsys.readouterr().out
    # It has landed, and wasn't parsed yet.
    assert main(["lineage", "--target", "orders", "--shard", B.shard_id]) == 0
    assert capsys.readouterr().out == f"no range of records was parsed of {B.shard_id}\n"
    assert main(["lineage", "--target", "orders", "--shard", "shardId-7"]) == STOPPED
    assert "there is no shard 'shardId-7'" in capsys.readouterr().err


def test_a_check_says_so_where_only_a_wave_can_judge_a_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "headrace.yaml").write_text(
        "application: shop\nstreams: [{name: orders}]\nlanding: {home: lake}\nparse:\n"
        "  - {name: rows, table: lake.rows, format: callable, callable: 'needs_session:rows', schema: n INT}\n"
    )
    (tmp_path / "needs_session.py").write_text(
        "from pyspark.sql import functions as F\n\n\n@F.udf('string')\ndef same(text):\n    return text\n\n\n"
        "def rows(records, context):\n    return records\n"
    )
    assert main(["parse", "--config", str(tmp_path / "headrace.yaml"), "--check"]) == 0
    assert "only a wave tells whether the function can be used" in "".join(capsys.readouterr())
