"""`headrace window` with `--processor` on a real Spark: made, run, shown, proved, kept small, redriven, beside the live processor."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.typed.table import IcebergTyped
from tests.cli.projects import enter_project, settings_in
from tests.typed.parsings import A, B, Bed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("joined_spark"),
]
PROCESSORS = """
processors:
  - name: words
    callable: words:rows
    table: lake.words
    schema: word STRING, total BIGINT
    on_error: quarantine
"""
CODE = """
def rows(records, state):
    totals, made = dict(state or {}), []
    for record in records:
        word = record.binary_data.decode()
        if word == "bad":
            raise ValueError("no such word")
        totals[word] = totals.get(word, 0) + 1
        made.append({"word": word, "total": totals[word]})
    return made, totals
"""


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    bed = Bed(tmp_path / "home")
    enter_project(tmp_path, monkeypatch, settings_in(tmp_path, PROCESSORS), words=CODE)
    bed.land(A, {1: b"a", 2: b"b"})
    bed.land(A, {3: b"a", 4: b"bad", 5: b"b"})
    bed.land(B, {10: b"a"})
    return bed


def words(bed: Bed, name: str) -> list[tuple[str, int]]:
    table = IcebergTyped(bed.lake.properties, name, state=bed.state, clock=bed.clock)
    rows = read.rows(table, ("word", "total")).to_pylist()
    return sorted((row["word"], row["total"]) for row in rows)


def test_a_window_goes_through_a_processor_from_the_shell(
    bed: Bed, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert main(["processor", "run"]) == 0
    live = words(bed, "lake.words")
    capsys.readouterr()

    create = ["window", "create", "--shard", A.shard_id, "--first", "2", "--processor", "words"]
    assert main([*create, "--into", "lake.words"]) == STOPPED
    assert "own table of the processor words" in capsys.readouterr().err
    assert main([*create, "--into", "lake.words_again", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["does"], made["processor"], made["table"]) == ("process", "words", "lake.words_again")
    assert main(["window", "run", made["id"]]) == 0
    told = capsys.readouterr().out
    assert "4 records processed into 3 rows, 1 set aside" in told
    assert words(bed, "lake.words_again") == [("a", 1), ("b", 1), ("b", 2)]
    assert words(bed, "lake.words") == live

    assert main(["window", "show", made["id"], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["done"], shown["is_done"], shown["stopped"]) == (4, True, [])
    assert main(["window", "list"]) == 0
    assert "for the processor words, done" in capsys.readouterr().out
    assert main(["lineage", "--window", made["id"]]) == 0
    assert "processed" in capsys.readouterr().out

    (tmp_path / "words.py").write_text(CODE.replace('"bad"', '"worse"'))
    assert main(["redrive", "--processor", "words", "--window", made["id"]]) == 0
    assert "1 record given again: 1 processed into 1 row" in capsys.readouterr().out
    assert words(bed, "lake.words_again") == [("a", 1), ("b", 1), ("b", 2), ("bad", 1)]
    assert words(bed, "lake.words") == live

    assert main(["upkeep"]) == 0
    capsys.readouterr()
    assert main(["prove"]) == 0
    proved = capsys.readouterr().out
    assert "lake.words_again: 4 records processed into 4 rows, 0 in quarantine" in proved, proved
    assert "records processed into" in proved
