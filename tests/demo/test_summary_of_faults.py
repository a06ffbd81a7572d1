"""The demo's summary names every mistake in the table's files, and its exit code shows that there is one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.demo.home import Home
from tests.demo.homes import OTHER, PARENT, Rows, a_home, data_files, rewrite, row_number


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return a_home(tmp_path)


def check(home: Home, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["demo", "--check", "--home", str(home.folder)])
    return code, capsys.readouterr().out


def without(record_id: str) -> Callable[[Rows], Rows]:
    return lambda rows: [row for n, row in enumerate(rows) if n != row_number(rows, record_id)]


def doubled(record_id: str) -> Callable[[Rows], Rows]:
    return lambda rows: [
        again for n, row in enumerate(rows) for again in [row] * (1 + (n == row_number(rows, record_id)))
    ]


def swapped(record_id: str, other_id: str) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        one, two = row_number(rows, record_id), row_number(rows, other_id)
        assert one is not None
        assert two is not None
        rows[one], rows[two] = rows[two], rows[one]
        return rows

    return change


def payloads_swapped(record_id: str, other_id: str) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        one, two = row_number(rows, record_id), row_number(rows, other_id)
        assert one is not None
        assert two is not None
        rows[one]["data"], rows[two]["data"] = rows[two]["data"], rows[one]["data"]
        return rows

    return change


def test_a_table_with_exactly_the_records_that_were_put_matches(
    home: Home, capsys: pytest.CaptureFixture[str]
):
    code, said = check(home, capsys)
    assert code == 0
    assert said.splitlines()[-2] == (
        "everything matches: 20 put, 20 landed, 0 missing, 0 duplicates, 0 out of order"
    )
    assert f"{PARENT.shard_id}          7       2  -         the shard's end; children: 2" in said
    assert "NO " not in said


def test_a_removed_row_is_named(home: Home, capsys: pytest.CaptureFixture[str]):
    rewrite(home, without("r22"), with_row="r22")
    code, said = check(home, capsys)
    assert code == 1
    assert "DOES NOT MATCH: 20 put, 19 landed, 1 missing" in said
    assert f"r22 ({OTHER.shard_id} 22) isn't in the table; the ledger of snapshot " in said
    assert "says 4 rows, its files have 3" in said
    assert "has 7 rows, the table's metadata says 8" in said


def test_a_doubled_row_is_named(home: Home, capsys: pytest.CaptureFixture[str]):
    rewrite(home, doubled("r15"), with_row="r15")
    code, said = check(home, capsys)
    assert code == 1
    assert "DOES NOT MATCH: 20 put, 21 landed, 1 duplicates" in said
    assert f"r15 ({PARENT.shard_id} 15) is in file part-" in said
    assert "  out of order          0" in said.splitlines()


@pytest.mark.parametrize(("one", "two"), [("r31", "r32"), ("r30", "r35"), ("r11", "r12"), ("r15", "r25")])
def test_two_swapped_rows_are_named(home: Home, capsys: pytest.CaptureFixture[str], one: str, two: str):
    """The two rows are neighbours, the ends of a file, of one shard, and of two shards."""
    rewrite(home, swapped(one, two), with_row=one)
    code, said = check(home, capsys)
    assert code == 1
    assert "out of order; first: " in said.splitlines()[-2]
    assert f"{one} (" in said or f"{two} (" in said
    assert "comes after" in said
    assert " of snapshot " in said
    assert "0 missing" not in said


def test_two_swapped_payloads_are_named(home: Home, capsys: pytest.CaptureFixture[str]):
    rewrite(home, payloads_swapped("r31", "r32"), with_row="r31")
    code, said = check(home, capsys)
    assert code == 1
    assert "2 misplaced" in said
    assert "was put as" in said


def test_a_payload_that_was_never_put_is_named(home: Home, capsys: pytest.CaptureFixture[str]):
    def with_a_foreign_payload(rows: Rows) -> Rows:
        rows[0]["data"] = b"not json"
        return rows

    rewrite(home, with_a_foreign_payload, with_row="r30")
    code, said = check(home, capsys)
    assert code == 1
    assert "1 missing, 1 unknown" in said
    assert "a record without id (shardId-000000000002 30)" in said


def test_many_wrong_rows_are_counted_and_some_of_them_named(home: Home, capsys: pytest.CaptureFixture[str]):
    rewrite(home, lambda rows: rows[:1], with_row="r12")
    code, said = check(home, capsys)
    assert code == 1
    assert "7 missing" in said
    assert "and 2 more" in said


def test_a_folder_without_a_finished_demo_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--check", "--home", str(tmp_path)]) == 2
    assert "no demo has run to its summary" in capsys.readouterr().err


def test_a_folder_that_the_demo_didnt_make_is_never_emptied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    mine = tmp_path / "thesis.txt"
    mine.write_text("years of work", encoding="utf-8")
    assert main(["demo", "--home", str(tmp_path)]) == 2
    assert mine.read_text(encoding="utf-8") == "years of work"
    assert "nothing was touched" in capsys.readouterr().err


def test_the_table_of_these_tests_has_a_file_for_each_commit(home: Home):
    assert len(list(data_files(home))) == 3
