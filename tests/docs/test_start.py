"""docs/start.md, walked from its first command to its last by real processes: the stand-in, Dagster, Spark and the commands."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.request import Request, urlopen

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.cli import main
from headrace.pipeline.settings.file import read_settings
from tests.docs.pages import ROOT
from tests.docs.walk import Walk, agrees, steps_of
from tests.ports import free_port

PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
STEPS = steps_of(PAGE)


def reader(folder: Path, kind: type[Walk] = Walk) -> Walk:
    """A reader whose terminals know nothing yet, and whose ports are free ones."""
    programs = str(Path(sys.executable).parent)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HEADRACE_", "DAGSTER_", "AWS_"))}
    local, ui = free_port(), free_port()
    replaced = {
        "127.0.0.1:4567": f"127.0.0.1:{local}",
        "--port 4567": f"--port {local}",
        "127.0.0.1:3000": f"127.0.0.1:{ui}",
        "headrace dev\n": f"headrace dev --port {ui}\n",
    }
    return kind(folder, clean | {"PATH": programs + os.pathsep + os.environ["PATH"]}, replaced)


@pytest.mark.slow
def test_each_step_of_the_tutorial_prints_what_the_page_shows(tmp_path: Path):
    with reader(tmp_path) as walk:
        for step in STEPS:
            walk.take(step)
        _see_in_dagster(f"http://{walk.replaced['127.0.0.1:3000']}/graphql")
        assert set(walk.end().values()) == {0}


@dataclass
class WithoutDagster(Walk):
    """A reader with the leader's turns in the place of `headrace dev`, and with `headrace consume` in the place of its runs.

    Headrace works in the test's own process, because a process for each command would import everything anew.
    """

    def start(self, words: str, shown: str) -> None:
        if not words.startswith("headrace dev"):
            super().start(words, shown)
            return
        home = Path(self.variables["DAGSTER_HOME"])
        home.mkdir()
        shutil.copy(ROOT / "dagster.yaml", home)
        with self.here():
            for _ in range(3):
                wire(read_settings(self.folder / "headrace.yaml", {}).settings).leader_turn(None)

    @contextmanager
    def here(self) -> Iterator[None]:
        """The test's own process has the folder and the variables of the reader's terminal."""
        with patch.dict(os.environ, self.variables, clear=True), chdir(self.folder):
            yield

    def run(self, commands: str, *, must_succeed: bool = True) -> str:
        words = shlex.split(commands)
        if words[0] != "headrace" or "\n" in commands.strip():
            return super().run(commands, must_succeed=must_succeed)
        printed, complained = StringIO(), StringIO()
        with self.here(), redirect_stdout(printed), redirect_stderr(complained):
            code = main(words[1:])
        said = printed.getvalue() + complained.getvalue()
        assert code == 0 or not must_succeed, f"{commands}\n{said}"
        return said

    def repeat(self, commands: str, shown: str) -> None:
        self.run("headrace consume --shard shardId-000000000000 shardId-000000000001")
        super().repeat(commands, shown)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.usefixtures("joined_spark")
def test_each_command_of_the_tutorial_but_dagsters_prints_what_the_page_shows(tmp_path: Path):
    with reader(tmp_path, WithoutDagster) as walk:
        for step in STEPS:
            walk.take(step)


def _see_in_dagster(address: str) -> None:
    """What step 8 of the page says of Dagster's UI, asked of the server behind it."""
    said = set(re.findall(r"`((?:kinesis|shop)/[\w/]+)`", PAGE.partition("\n## 8. ")[2]))
    reloaded = _ask(address, "mutation { reloadWorkspace { __typename } }")
    assert reloaded == {"reloadWorkspace": {"__typename": "Workspace"}}
    nodes = _ask(address, "{ assetNodes { assetKey { path } dependencyKeys { path } } }")["assetNodes"]
    above = {
        "/".join(node["assetKey"]["path"]): {"/".join(key["path"]) for key in node["dependencyKeys"]}
        for node in nodes
    }
    assert said == {"kinesis/orders", "shop/records", "shop/lake/typed_orders"}
    assert said <= above.keys()
    assert above["shop/records"] == {"kinesis/orders", "shop/leases"}
    assert above["shop/lake/typed_orders"] == {"shop/records"}
    read = _ask(
        address,
        """{ assetNodeOrError(assetKey: {path: ["shop", "records"]}) { ... on AssetNode {
           assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions failedPartitions } } } } }""",
    )["assetNodeOrError"]["assetPartitionStatuses"]
    shards = {"shardId-000000000000", "shardId-000000000001"}
    assert (set(read["materializedPartitions"]), read["failedPartitions"]) == (shards, [])


def _ask(address: str, question: str) -> dict[str, Any]:
    request = Request(address, json.dumps({"query": question}).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=120) as answer:
        return dict(json.load(answer)["data"])


def test_every_command_of_the_tutorial_that_says_something_has_its_output_on_the_page():
    silent = [step.body for step in STEPS if step.language == "sh" and step.output is None]
    assert [body.split()[0] for body in silent] == ["mkdir"]


@pytest.mark.parametrize(
    ("shown", "printed", "agreeing"),
    [
        ("3 records put", "3  records put\n", True),
        ("3 records put", "4 records put\n", False),
        ("3 records put", "3 records put\nand a warning\n", False),
        ("<time> <id> landed", "2026-11-26 19:42:46.396+00:00 1924813 landed", True),
        ("<time> <id> landed", "2026-11-26 19:42:46.396+00:00 landed", False),
        ("first\n...\nlast", "first\nlast", True),
        ("first\n...\nlast", "first\nsecond\nthird\nlast", True),
        ("first\n...\nlast", "first\nsecond", False),
        ("1 json of <version>", "1 json of headrace 0.2.0, code 6a1a", True),
    ],
)
def test_an_output_agrees_with_the_page_only_where_each_line_does(
    shown: str, printed: str, *, agreeing: bool
):
    assert agrees(shown, printed) is agreeing
