"""Each Python block of docs/use/spark-source.md runs, one after the other, and prints what the page says."""

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.local.endpoint import local_aws
from headrace.pipeline.source.options import _FIELDS
from tests.docs.pages import ROOT
from tests.docs.reading_table import make_table

PAGE = (ROOT / "docs" / "use" / "spark-source.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", PAGE, flags=re.MULTILINE | re.DOTALL)
(SETTINGS,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION = 'spark = SparkSession.builder.remote("local[2]").getOrCreate()'
"""The start of a session. The test has one of its own, on a server that other tests share."""


def test_the_first_block_starts_a_session_in_one_line() -> None:
    assert _SESSION in BLOCKS[0][0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_each_block_runs_after_those_before_it_and_prints_what_the_page_says(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(tmp_path)
    (tmp_path / "headrace.yaml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    with local_aws("--transition", "0") as aws:
        for name, value in aws.environment.items():
            monkeypatch.setenv(name, value)
        client: Any = aws.client("kinesis")
        client.create_stream(StreamName="orders", ShardCount=1)
        client.put_records(
            StreamName="orders", Records=[{"Data": b"%d" % n, "PartitionKey": "customer"} for n in range(3)]
        )
        names: dict[str, Any] = {"spark": spark}
        for number, (code, expected) in enumerate(BLOCKS, start=1):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(
                    compile(code.replace(_SESSION, ""), f"docs/use/spark-source.md, block {number}", "exec"),
                    names,
                )
            assert printed.getvalue() == expected, f"block {number}"


def test_the_page_has_every_option() -> None:
    (table,) = re.findall(r"^## All options\n(.*?)^## ", PAGE, flags=re.MULTILINE | re.DOTALL)
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == _FIELDS.keys()
