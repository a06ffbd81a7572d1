"""`headrace window` on a real Spark, with the settings of a user."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.demo.aggregate import aggregated
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.projects import enter_project, settings_in
from tests.lake.samples import NOON
from tests.typed.parsings import A, B, Bed, good

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("joined_spark"),
]

TARGETS = """
parse:
  - {name: orders, table: lake.orders, schema: "name STRING", version: "1"}
"""


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    bed = Bed(tmp_path / "home")
    enter_project(tmp_path, monkeypatch, settings_in(tmp_path, TARGETS, application="windows"))
    return bed


def told(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert main(["window", *argv]) == code
    said = capsys.readouterr()
    return said.out if code == 0 else said.err


def copied(bed: Bed, window: str) -> list[int]:
    table = IcebergTable(
        bed.lake.properties, f"lake.records_window_{window}", state=bed.state, clock=bed.clock
    )
    return sorted(int(row["sequence_number"]) for row in read.rows(table, ("sequence_number",)).to_pylist())


def test_a_window_is_made_shown_copied_and_copied_again(bed: Bed, capsys: pytest.CaptureFixture[str]):
    bed.land(A, {1: good(1)}, arrival=NOON - timedelta(days=2))
    bed.land(A, {2: good(2)}, ended=["shardId-000000000002"])
    child = A.__class__(A.stream, "shardId-000000000002")
    bed.land(child, {5: good(5)}, parents=[A.shard_id])
    bed.land(B, {7: good(7)}, arrival=NOON + timedelta(days=2))
    created = told(capsys, "create", "--from", "2026-01-31", "--to", "2026-02-01").splitlines()
    found = re.match(r"window ([0-9a-f]{8}): ranges with records that arrived from 2026-01-31", created[0])
    assert found
    window = found[1]
    assert created[1:] == [
        "2 shards of 1 stream, 2 rows, 0 bytes of Kinesis records, about 1 s of CPU to copy",
        f"`headrace window run {window}` copies it into lake.records_window_{window}",
    ]
    assert told(capsys, "list").startswith(f"{window}  20")
    assert "keeps days" not in told(capsys, "list")
    (listed,) = json.loads(told(capsys, "list", "--json"))["windows"]
    assert (listed["id"], listed["does"], listed["rows"], listed["is_done"]) == (window, "copy", 2, False)
    assert (listed["table"], listed["target"]) == (f"lake.records_window_{window}", None)
    assert [(each["shard"], each["after"], each["rows"]) for each in listed["ranges"]] == [
        (A.shard_id, "1", 1),
        (child.shard_id, None, 1),
    ]
    assert "0 rows copied into" in told(capsys, "show", window)
    assert told(capsys, "run", window).splitlines()[1:] == [
        f"{window}: 1 row copied",
        f"{window}: 1 row copied",
        f"the window is copied into lake.records_window_{window}",
    ]
    assert copied(bed, window) == [2, 5]
    shown = json.loads(told(capsys, "show", window, "--json"))
    assert (shown["format"], shown["done"], shown["is_done"]) == (1, 2, True)
    again = json.loads(told(capsys, "run", window, "--json"))
    assert (again["format"], again["id"], again["does"], again["rows"]) == (1, window, "copy", 0)
    assert (again["is_done"], again["set_aside"], again["made"]) == (True, None, None)
    assert main(["window", "run", window]) == 0
    said = capsys.readouterr()
    assert f"{window}: nothing left to copy" in said.out
    assert said.err == ""
    assert copied(bed, window) == [2, 5]
    shown = told(capsys, "show", window)
    assert "2 rows copied into" in shown
    assert "and done since" in shown
    assert ", done  (" in told(capsys, "list")
    assert f"{A} after 1 up to 2, ended: 1 row" in shown
    assert main(["lineage", "--window", window]) == 0
    assert "2 rows in 3 ranges of 2 shards" in capsys.readouterr().out
    cancelled = told(capsys, "cancel", window)
    assert cancelled.startswith(
        f"window {window} was done before, and is cancelled: what it has brought into "
    )
    assert "--resume` takes the cancelling back, and looks for rows of the window that" in cancelled
    assert ", done, and cancelled since  (" in told(capsys, "list")
    assert ", and done, and cancelled since\n" in told(capsys, "show", window)
    assert f"{window}: nothing left to copy" in told(capsys, "run", window, "--resume")
    assert ", done  (" in told(capsys, "list")


def test_a_cancelled_window_is_gone_on_with_only_where_a_person_says_so(
    bed: Bed, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    config = tmp_path / "headrace.yaml"
    config.write_text(config.read_text() + "upkeep: {retention: 90d}\n")
    bed.land(A, {1: good(1)})
    created = told(capsys, "create", "--shard", A.shard_id, "--first", "1")
    window = created.split()[1].rstrip(":")
    assert "; upkeep.retention leaves days from 2026-01-31 on for it" in told(capsys, "list")
    assert "upkeep.retention removes no day from 2026-01-31 on until this window is done" in told(
        capsys, "show", window
    )
    assert f"run {window} --resume" in told(capsys, "cancel", window)
    assert "keeps days" not in told(capsys, "list")
    assert "cancelled since" in told(capsys, "show", window)
    assert "is cancelled" in told(capsys, "run", window, code=STOPPED)
    told(capsys, "run", window, "--resume")
    assert copied(bed, window) == [1]


def test_a_window_is_parsed_again_into_a_typed_table(
    bed: Bed, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    bed.land(A, {1: good(1), 2: good(2), 3: b'{"id": "three", "name": "n3"}', 4: good(4)})
    assert main(["parse"]) == 0
    config = tmp_path / "headrace.yaml"
    corrected = config.read_text().replace("name STRING", "id BIGINT, name STRING").replace('"1"', '"2"')
    config.write_text(corrected)
    capsys.readouterr()
    created = told(
        capsys, "create", "--shard", A.shard_id, "--first", "2", "--last", "3", "--replace", "orders"
    ).splitlines()
    window = created[0].split()[1].rstrip(":")
    assert created[1].endswith("about 1 s of CPU to read, and more to parse")
    assert main(["lineage", "--window", window]) == 0
    assert capsys.readouterr().out == f"no row of the window {window} was replaced yet\n"
    assert created[2] == (
        f"`headrace window run {window}` parses these records again, and replaces their rows in lake.orders and lake.orders_quarantine"
    )
    assert "replaces rows of orders" in told(capsys, "list")
    assert main(["window", "run", window]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1:] == [
        f"{window}: 2 rows parsed again: 1 parsed, 1 set aside, in the place of 2 older rows",
        "the rows of the window are replaced in lake.orders and lake.orders_quarantine",
    ]
    assert "tables that were made of lake.orders before still have the older rows" in said.err
    rows = {int(row["sequence_number"]): row for row in read.rows(bed.typed()).to_pylist()}
    assert {number: (row["id"], row["name"]) for number, row in rows.items()} == {
        1: (None, "n1"),
        2: (2, "n2"),
        4: (None, "n4"),
    }
    assert [number for _, number, _ in bed.set_aside()] == [3]
    bed.check()
    assert told(capsys, "run", window).splitlines()[1] == f"{window}: nothing left to replace"
    assert "2 rows parsed again for lake.orders" in told(capsys, "show", window)
    assert main(["lineage", "--window", window]) == 0
    assert "1 row in 1 range of 1 shard" in capsys.readouterr().out
    assert main(["lineage", "--target", "orders"]) == 0
    # A shard and the number of its redrives are one shard, and a row that took the place of another is no further one.
    total = capsys.readouterr().out.splitlines()[-1]
    assert total == "4 rows, and 1 row that took the place of others, in 3 ranges of 1 shard"
    assert main(["lineage", "--sequence", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-5].startswith("orders: parsed: ")
    assert lines[-3].startswith(
        f"orders: parsed again, in the place of older rows, for the window {window}: "
    )
    assert lines[-2] == "  of the range's rows 1 are in lake.orders, 1 were set aside"
    assert lines[-1].startswith("  the record is now in lake.orders: 1 row, in ")


def test_aggregates_of_a_window_are_taken_apart_in_the_lake_table(
    bed: Bed, capsys: pytest.CaptureFixture[str], aws: LocalAws, tmp_path: Path
):
    """Also of a stream that Kinesis no longer has."""
    config = tmp_path / "headrace.yaml"
    local = f'aws: {{region: {aws.region}, endpoint: "{aws.endpoint}"}}'
    config.write_text(config.read_text().replace("aws: {region: eu-west-1}", local))
    bed.land(A, {1: good(1), 2: aggregated("key", [good(21), good(22), good(23)])})
    bed.land(A, {3: aggregated("key", [good(31)]), 4: good(4)})
    created = told(capsys, "create", "--from", "2026-01-31", "--to", "2026-02-01", "--unpack")
    assert (
        "takes aggregates of these records apart in lake.records; rows that are no whole aggregate stay as they are"
        in created
    )
    window = created[len("window ") :][:8]
    assert f"{window} " in told(capsys, "list")
    assert "takes aggregates apart, not done yet" in told(capsys, "list")
    ran = told(capsys, "run", window)
    assert f"{window}: 2 aggregates taken apart: 4 rows in the place of 2" in ran
    assert "the aggregates of the window are taken apart in lake.records" in ran
    assert ", done" in told(capsys, "list")
    rows = read.rows(bed.lake.handle(), ("sequence_number", "sub_sequence_number", "data")).to_pylist()
    assert sorted((int(r["sequence_number"]), r["sub_sequence_number"], r["data"]) for r in rows) == [
        (1, 0, good(1)),
        *((2, sub, good(21 + sub)) for sub in range(3)),
        (3, 0, good(31)),
        (4, 0, good(4)),
    ]
    assert "2 aggregates taken apart in lake.records" in told(capsys, "show", window)
    assert "no aggregate found that is left to take apart" in told(capsys, "run", window)
    assert main(["lineage", "--window", window]) == 0
    assert "2 rows in 2 ranges of 1 shard" in capsys.readouterr().out
    assert main(["lineage", "--sequence", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("unpacked: ")
    assert f"taken apart for the window {window}; their rows are in the range" in lines[-1]
    assert "s of CPU to look through and rewrite" in created
    plain = json.loads(told(capsys, "create", "--shard", A.shard_id, "--last", "1", "--unpack", "--json"))[
        "id"
    ]
    assert main(["lineage", "--window", plain]) == 0
    assert capsys.readouterr().out == f"no aggregate of the window {plain} was taken apart yet\n"
    told(capsys, "run", plain)
    assert main(["lineage", "--window", plain]) == 0
    assert (
        capsys.readouterr().out
        == f"the window {plain} is done, and no aggregate was there to be taken apart\n"
    )
    error = told(capsys, "create", "--run", "run", "--unpack", "--replace", "orders", code=STOPPED)
    assert "nothing was made. Take the aggregates apart first" in error


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["create"], "either by --from and --to, or by --snapshot"),
        (["create", "--run", "r", "--snapshot", "1"], "either by"),
        (["create", "--run", "r", "--first", "1"], "need --shard"),
        (["create", "--from", "2026-01-31", "--to", "2026-01-30"], "a time after --from"),
        (
            ["create", "--shard", "shardId-000000000000", "--first", "3", "--last", "1"],
            "--first not after --last",
        ),
        (["create", "--shard", "shardId-000000000000", "--last", "-1"], "headrace: --last is -1; allowed"),
        (["create", "--run", "nobody"], "No window was made"),
        (["create", "--shard", "shardId-7"], "No window was made"),
        (
            ["create", "--shard", "shardId-000000000000", "--replace", "order"],
            "no target 'order' under `parse`; they have orders. Nothing was made",
        ),
        (["show", "nobody"], "there is no window 'nobody'"),
        (["run", "nobody"], "there is no window 'nobody'"),
        (["cancel", "nobody"], "there is no window 'nobody'"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_made(
    bed: Bed, capsys: pytest.CaptureFixture[str], argv: list[str], why: str
):
    bed.land(A, {1: good(1)})
    assert why in told(capsys, *argv, code=STOPPED)
    assert told(capsys, "list") == "there is no window\n"
