"""Each Python block of docs/reading.md runs, one after the other, and prints what the page says.

The SQL blocks need Spark 4.1: tests/engines/test_reading_by_spark.py runs them.
"""

import contextlib
import io
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.lake.session import spark_session
from headrace.pipeline.settings.model import SparkSettings
from tests.docs.pages import ROOT
from tests.docs.reading_table import make_table

PAGE = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reading")
    make_table(folder)
    return folder


@pytest.fixture
def names(home: Path, joined_spark: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page takes for given: a Spark session."""
    monkeypatch.chdir(home)
    return {"spark": spark_session(SparkSettings(remote="local[2,2]"), "headrace-tests")}


def test_each_block_runs_after_those_before_it_and_prints_what_the_page_says(names: dict[str, Any]) -> None:
    assert len(BLOCKS) > 5
    for number, (code, expected) in enumerate(BLOCKS, start=1):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile(code, f"docs/reading.md, block {number}", "exec"), names)
        assert told.getvalue() == expected, f"block {number}:\n{code}"


def test_the_page_names_the_version_of_duckdb_that_runs_its_block() -> None:
    (named,) = re.findall(r"with DuckDB (\S+);", PAGE)
    packages = ("duckdb", "duckdb-extension-avro", "duckdb-extension-iceberg")
    assert {version(each) for each in packages} == {named}


def test_every_block_of_the_page_is_run_by_a_test() -> None:
    languages = re.findall(r"^```(\w+)$", PAGE, re.MULTILINE)
    assert set(languages) == {"python", "text", "sql", "properties"}
    assert languages.count("python") == len(BLOCKS)
