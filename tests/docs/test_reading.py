"""Each Python block of docs/use/reading.md runs, one after the other, and prints what the page says.

The SQL blocks need Spark 4.1: tests/engines/test_reading_by_spark.py runs them.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import ROOT
from tests.docs.reading_table import make_first_day, make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs" / "use" / "reading.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", PAGE, flags=re.MULTILINE | re.DOTALL)

SESSION = 'SparkSession.builder.remote("local[2]").getOrCreate()'
"""The page says: or your own session. One by PySpark alone starts a server at a port that is the same in each process, and leaves its
token in the environment, with which later sessions speak TLS to each server."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reading")
    make_table(folder)
    return folder


@pytest.mark.usefixtures("joined_spark")
def test_each_block_runs_after_those_before_it_and_prints_what_the_page_says(
    home: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    for number, (told, expected) in enumerate(told_by_blocks(spark), start=1):
        assert told == expected, f"block {number}"


@pytest.mark.usefixtures("joined_spark")
def test_each_block_runs_on_a_table_into_which_one_run_has_landed_too(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the first day nothing is stated yet about up to when the table is complete."""
    make_first_day(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = "".join(told for told, _ in told_by_blocks(spark))
    assert "None\n30 January is complete: False\n31 January is complete: False\n" in text


def told_by_blocks(spark: "SparkSession") -> Iterator[tuple[str, str]]:
    """What each block of the page prints after those before it, and what the page says."""
    assert len(BLOCKS) > 5
    assert sum(code.count(SESSION) for code, _ in BLOCKS) == 1
    names: dict[str, Any] = {"session_of_tests": spark}
    for number, (code, expected) in enumerate(BLOCKS, start=1):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            own = code.replace(SESSION, "session_of_tests")
            exec(compile(own, f"docs/use/reading.md, block {number}", "exec"), names)
        yield told.getvalue(), expected


def test_the_page_names_the_version_of_duckdb_that_runs_its_block() -> None:
    (named,) = re.findall(r"with DuckDB (\S+);", PAGE)
    packages = ("duckdb", "duckdb-extension-avro", "duckdb-extension-iceberg")
    assert {version(each) for each in packages} == {named}


def test_every_block_of_the_page_is_run_by_a_test() -> None:
    languages = re.findall(r"^```(\w+)$", PAGE, re.MULTILINE)
    assert set(languages) == {"python", "text", "sql", "properties"}
    assert languages.count("python") == len(BLOCKS)
