"""The whole path on this machine: stand-in, Spark, Dagster's daemon, two reshards, and the summary of the table."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.pipeline.demo.home import Home
from headrace.pipeline.demo.reading import read_puts
from tests.modes import open_to_others, usual_umask

# `.ci/run` runs the demo itself, with more records, and the demo's own judge decides there.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RECORDS = 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(folder: Path) -> "subprocess.CompletedProcess[str]":
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DAGSTER_", "HEADRACE"))}
    command = [
        sys.executable,
        "-P",
        "-m",
        "headrace.pipeline.cli",
        "demo",
        "--records",
        str(RECORDS),
        "--home",
        "home",
    ]
    with usual_umask():
        return subprocess.run(
            command,
            cwd=folder,
            env={**env, "PYTHONPATH": str(ROOT), "DEMO_EXIT": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=360,
        )


def test_every_record_that_was_put_has_landed_once_and_in_order(demo: "subprocess.CompletedProcess[str]"):
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert (
        "everything matches: 2,000 put, 2,000 landed, 0 missing, 0 duplicates, 0 out of order" in demo.stdout
    )


def test_the_demo_ends_with_a_proof_of_the_table(demo: "subprocess.CompletedProcess[str]"):
    assert re.search(
        r"^  proved: 2,000 records of 7 shards that arrived between .* once each, in snapshot \d+; each row is accounted for in lake.orders, lake.numbers$",
        demo.stdout,
        re.MULTILINE,
    )
    assert "NO  " not in demo.stdout
    assert "not proved" not in demo.stdout.casefold()


def test_each_record_is_parsed_and_the_one_with_a_wrong_type_is_set_aside(
    demo: "subprocess.CompletedProcess[str]",
):
    assert re.search(
        r"^  yes  each landed record is in the typed table or set aside with a reason, once  \(1,999 rows, 1 set aside: the payload has values that don't fit their columns: cents",
        demo.stdout,
        re.MULTILINE,
    )


def test_a_window_is_parsed_again_and_exactly_its_rows_are_replaced(
    demo: "subprocess.CompletedProcess[str]",
):
    replaced = re.search(
        r"window \w{8}: (\d+) rows? parsed again: \d+ parsed, \d set aside, in the place of (\d+) older rows?$",
        demo.stdout,
        re.MULTILINE,
    )
    judged = re.search(
        r"^  yes  exactly the window's records were parsed again, and each of them has one new row  \((\d+) rows?; the window has the records of shardId-\d+\)$",
        demo.stdout,
        re.MULTILINE,
    )
    assert replaced
    assert judged
    assert 0 < int(judged[1]) < RECORDS
    assert {replaced[1], replaced[2]} == {judged[1]}


def test_a_producer_put_aggregates_whose_user_records_are_rows(
    demo: "subprocess.CompletedProcess[str]", folder: Path
):
    assert demo.returncode == 0
    puts = read_puts(Home(folder / "home").puts)
    aggregates = Counter((put.shard_id, put.sequence) for put in puts.values())
    assert sum(1 for users in aggregates.values() if users > 1) == 100
    assert sum(users for users in aggregates.values() if users > 1) == RECORDS // 4


def test_a_shard_was_split_and_two_were_merged_while_records_were_put(
    demo: "subprocess.CompletedProcess[str]",
):
    assert re.search(r"split shardId-0+ -> 4, 5, while [\d,]+ of 2,000 were put", demo.stdout)
    assert re.search(r"merged shardId-0+2 and shardId-0+3 -> 6, while [\d,]+ of 2,000 were put", demo.stdout)
    rows = dict(re.findall(r"^  shardId-(\d+) +([\d,]+)  ", demo.stdout, re.MULTILINE))
    assert len(rows) == 7
    assert sum(int(count.replace(",", "")) for count in rows.values()) == RECORDS
    assert all(rows[f"{child:012d}"] != "0" for child in (4, 5, 6))


def test_progress_and_the_address_of_the_ui_are_printed_meanwhile(demo: "subprocess.CompletedProcess[str]"):
    assert re.search(
        r"put [\d,]+ of 2,000 · landed [\d,]+ · \d of \d shards open · \d+ snapshots?", demo.stdout
    )
    assert re.search(r"Dagster's UI is at http://127\.0\.0\.1:\d+", demo.stdout)


def test_all_files_that_the_demo_leaves_are_private(demo: "subprocess.CompletedProcess[str]", folder: Path):
    assert demo.returncode == 0
    assert open_to_others(folder / "home") == {}


def test_no_process_is_left_running(demo: "subprocess.CompletedProcess[str]", folder: Path):
    assert demo.returncode == 0
    assert [process for process in processes() if str(folder) in process] == []


def processes() -> list[str]:
    """The command lines of all processes, with their environment where the system shows it."""
    shown = subprocess.run(["ps", "axeww", "-o", "pid,command"], capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()
