"""The example of docs/use/shadow.md runs as the page says. What Spark does is done in this process: tests/proof/test_compare_spark.py has a real one."""

import re
import shlex
from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.clock import SystemClock
from tests.docs.pages import ROOT
from tests.docs.reading_table import HOME, make_table
from tests.memory.tasks import LocalTasks
from tests.proof.target_proofs import shuffled

PAGE = (ROOT / "docs" / "use" / "shadow.md").read_text(encoding="utf-8").partition("\n## An example\n")[2]


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_finds_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headrace.pipeline.cli.beside.services.join_spark", lambda _: None)
    monkeypatch.setattr("headrace.pipeline.app.lake_adapters.LakeAdapters.tasks", LocalTasks(SystemClock()))
    monkeypatch.setattr("headrace.pipeline.proof.compare_spark.on_spark", lambda _: shuffled)
    make_table(tmp_path)
    Path("headrace.yaml").write_text(
        "application: orders\nstreams: [{name: orders}]\naws: {region: eu-west-1}\n"
        f"landing: {{table: lake.orders, home: {HOME}}}\n"
    )
    Path("output.jsonl").write_text(block("json"))
    _, *words = shlex.split(block("sh"))
    assert main(words) == 1
    told = re.sub(r"snapshot \d+", "snapshot <id>", capsys.readouterr().out)
    assert told == block("text")
