"""`headrace upkeep` on a table in a folder: what it prints, and what it changes."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.pipeline.cli import DONE, STOPPED, TRY_LATER, main
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.errors import HeadraceError, Unreachable, WrongShape
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.plain_read import landed_files, rows
from headrace.pipeline.upkeep.upkeep import Upkeep, UpkeepReport
from tests.lake.samples import ORIGIN, a_key, a_landing, numbers_in

A = a_key(0)


class App:
    def __init__(self, folder: Path) -> None:
        self.config = folder / "headrace.yaml"
        self.config.write_text(
            "application: orders\nstreams: [{name: orders}]\naws: {region: eu-west-1}\n"
            "landing: {table: lake.records, home: lake}\nupkeep: {keep_snapshots: 5, keep_for: 1ms}\n"
        )
        self.folder = folder / "lake"

    @property
    def table(self) -> IcebergTable:
        return the_table(self.folder)

    def __call__(self, *arguments: str) -> int:
        return main(["upkeep", "--config", str(self.config), *arguments])


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = App(tmp_path)
    table = made.table
    table.ensure(create=True)
    table.commit(ORIGIN)
    return made


def test_upkeep_expires_and_tells_what_waits(app: App, capsys: pytest.CaptureFixture[str]):
    for _ in range(40):
        app.table.carry()
    a_landing(app.table.staging_spec(), A, after=None, numbers=[1])
    assert app() == DONE
    out = capsys.readouterr().out
    assert "36 snapshots of the lake table expired" in out
    assert len(app.table.retained().snapshots) == 5
    assert "0 files (0 bytes) deleted; 1 file (" in out


def test_a_script_gets_one_object_with_what_was_done_and_what_waits(
    app: App, capsys: pytest.CaptureFixture[str]
):
    for _ in range(40):
        app.table.carry()
    a_landing(app.table.staging_spec(), A, after=None, numbers=[1])
    assert app("--json") == DONE
    answer = json.loads(capsys.readouterr().out)
    assert (answer["format"], answer["dry_run"], answer["deleted"], answer["troubles"]) == (1, False, [], [])
    assert "36 snapshots of the lake table expired" in " ".join(answer["notes"])
    (waiting,) = answer["waiting"]
    assert waiting["path"].endswith(".parquet")
    assert waiting["bytes"] > 0


def test_a_dry_run_changes_nothing(app: App, capsys: pytest.CaptureFixture[str]):
    for _ in range(40):
        app.table.carry()
    before = app.table.retained()
    assert app("--dry-run") == DONE
    assert app.table.retained() == before
    assert "0 files (0 bytes) deleted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("second", "code"), [(Unreachable("S3 is away"), TRY_LATER), (WrongShape("a file is missing"), STOPPED)]
)
def test_upkeep_tells_all_that_failed_and_its_exit_code_is_75_only_if_trying_again_can_help(
    app: App,
    second: HeadraceError,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    report = UpkeepReport(notes=("3 files compacted",), troubles=(Unreachable("Spark is away"), second))
    monkeypatch.setattr(Upkeep, "run", lambda *_, **__: report)
    assert app() == code
    out, err = capsys.readouterr()
    assert "3 files compacted" in out
    assert err == f"headrace: Spark is away\nheadrace: {second}\n"


def land(app: App, number: int) -> None:
    made = a_landing(app.table.staging_spec(), A, after=number - 1 or None, numbers=[number])
    fresh = tuple(replace(each, staged_at=datetime.now(UTC)) for each in made.files)
    app.table.commit(replace(made, files=fresh))


@pytest.mark.usefixtures("joined_spark")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_upkeep_compacts_on_the_spark_of_the_first_worker(app: App, capsys: pytest.CaptureFixture[str]):
    for number in range(1, 7):
        land(app, number)
    assert app("--dry-run") == DONE
    assert "6 data files would be compacted into 1" in capsys.readouterr().out
    assert app() == DONE
    assert "6 data files (" in (out := capsys.readouterr().out)
    assert "with all of their 6 rows" in out
    assert [each.rows for each in landed_files(app.table)] == [6]
    land(app, 7)
    assert numbers_in(rows(app.table)) == {A.shard_id: list(range(1, 8))}


def test_upkeep_of_a_table_into_which_nothing_landed_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    app = App(tmp_path)
    app.table.ensure(create=True)
    assert app() == DONE
    assert capsys.readouterr().out == "no file deleted: nothing has landed in the table yet\n"
