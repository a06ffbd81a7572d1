"""`headrace prove` on a table in a folder, through a real Spark: what it prints, and its exit codes."""

import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.pipeline.cli import DONE, STOPPED, main
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.lake.table.plain_read import landed_files
from tests.lake.samples import ORIGIN, a_key, a_landing
from tests.lake.tables import append_as_others

A, B = a_key(0), a_key(1)


class App:
    def __init__(self, folder: Path) -> None:
        self.config = folder / "headrace.yaml"
        self.config.write_text(
            "application: orders\nstreams: [{name: orders}]\naws: {region: eu-west-1, endpoint: 'http://127.0.0.1:9'}\n"
            "landing: {table: lake.records, home: lake}\n"
        )
        self.table = the_table(folder / "lake")
        self.table.ensure(create=True)
        self.table.commit(ORIGIN)

    def land(self, number: int) -> None:
        for key in (A, B):
            made = a_landing(self.table.staging_spec(), key, after=number - 1 or None, numbers=[number])
            fresh = tuple(replace(each, staged_at=datetime.now(UTC)) for each in made.files)
            self.table.commit(replace(made, files=fresh))

    def __call__(self, *arguments: str) -> int:
        return main(["prove", "--config", str(self.config), *arguments])


@pytest.fixture
def keys_without_kinesis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys for Spark's tasks, and a Kinesis that can't be reached: the command asks it once."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")


@pytest.mark.usefixtures("joined_spark", "keys_without_kinesis")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_prove_reads_on_the_spark_of_the_first_worker_and_its_exit_code_says_whether_all_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    app = App(tmp_path)
    for number in (1, 2):
        app.land(number)
    assert app() == DONE
    out = capsys.readouterr().out.splitlines()
    assert "4 rows of 4 files read" in out
    assert out[-1].startswith("proved: 4 records of 2 shards")
    # Kinesis can't be reached in this test.
    assert out[-1].endswith("NOT proved: 1 thing named above")
    app.land(3)
    assert app() == DONE
    assert "2 rows of 2 files read; 4 files unchanged since snapshot" in capsys.readouterr().out
    assert app("--json") == DONE
    _is_as_documented(capsys.readouterr().out)
    path = landed_files(app.table)[0].path.removeprefix("file://")
    found = pq.read_table(path, partitioning=None)
    pq.write_table(found.slice(0, 0), path)
    assert app("--all") == 1
    said = capsys.readouterr()
    out = said.out.splitlines()
    assert "docs/use/proof.md, `When something is wrong`, tells what to do" in said.err
    assert "NO   each range has as many rows as its ledger states (6 ranges)" in out
    assert out[-1].startswith("NOT PROVED: 2 checks of 8 found 2 mistakes")


@pytest.mark.usefixtures("joined_spark", "keys_without_kinesis")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_person_has_the_answer_before_dagster_is_told_which_may_take_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    app = App(tmp_path)
    app.land(1)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "gone"))
    monkeypatch.setattr("sys.stderr", sys.stdout)
    assert app() == DONE
    out = capsys.readouterr().out
    assert out.index("proved: 2 records of 2 shards") < out.index("wasn't told of this change")


def _is_as_documented(out: str) -> None:
    """Names may be added to this form, and none is changed or removed."""
    text = re.sub(r"[0-9]{17,20}", "<id>", out)
    assert json.loads(text) == json.loads((Path(__file__).parent / "golden" / "prove.json").read_text())


@pytest.mark.parametrize("text", ["yesterday", "2026-01-31T25:00", "0001-01-01T00:00+05:00"])
def test_a_time_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], text: str):
    with pytest.raises(SystemExit) as stopped:
        main(["prove", "--from", text])
    assert stopped.value.code == STOPPED
    assert f"'{text}' isn't a time such as 2026-01-31" in capsys.readouterr().err


def test_a_window_without_a_moment_is_refused(capsys: pytest.CaptureFixture[str]):
    """Nothing would be proved, and the exit code would be that of a whole table."""
    assert main(["prove", "--from", "2026-02-01", "--to", "2026-01-31T12:00"]) == STOPPED
    assert "allowed: a time after --from, 2026-02-01T00:00:00+00:00" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--accept-foreign", "5"), "--accept-foreign and --why go together"),
        (("--why", "a backfill"), "--accept-foreign and --why go together"),
        (("--accept-foreign", "5", "--why", "a backfill"), "has no snapshot 5 on main"),
        (
            ("--accept-foreign", "5", "--why", "a backfill", "--json", "--all"),
            "--json and --all can't go with --accept-foreign",
        ),
        (
            ("--accept-foreign", "5", "--why", "a backfill", "--from", "2026-01-31"),
            "--from can't go with --accept-foreign",
        ),
        (
            ("--accept-foreign", "5", "--why", "a backfill", "--to", "2026-01-31"),
            "--to can't go with --accept-foreign",
        ),
    ],
)
def test_rows_of_no_insert_are_never_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
):
    app = App(tmp_path)
    app.land(1)
    assert app(*arguments) == STOPPED
    assert told in capsys.readouterr().err


@pytest.mark.usefixtures("joined_spark", "keys_without_kinesis")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_rows_that_another_engine_inserted_are_wrong_until_they_are_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    app = App(tmp_path)
    app.land(1)
    append_as_others(app.table.open())
    assert app() == 1
    head = app.table.open().current_snapshot()
    assert head is not None
    assert app("--accept-foreign", str(head.snapshot_id), "--why", "a backfill") == DONE
    assert f"1 row of snapshot {head.snapshot_id} accepted" in capsys.readouterr().out
    assert app() == DONE
    assert "A person has accepted rows of another engine there" in capsys.readouterr().out
