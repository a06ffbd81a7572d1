"""A person's project of Dagster's components, beside an installed Headrace, walked with the commands of the page."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.local.endpoint import LocalAws
from tests.docs.pages import ROOT
from tests.eventually import eventually
from tests.ports import free_port
from tests.setup.installed import Environment, build

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "start" / "as-a-component.md").read_text(encoding="utf-8")
_PROJECT = """\
[project]
name = "mill"
version = "1.0"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
force-include = { "pyproject.toml" = "pyproject.toml" }

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "mill"
registry_modules = ["mill.components.*"]
"""
_DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
_STOP_SPARK = "from headrace.pipeline.lake.spark.session import stop_local_server; stop_local_server()"


@dataclass(frozen=True)
class Project:
    """What `create-dagster project mill` writes, and a terminal in its folder."""

    environment: Environment
    folder: Path
    variables: dict[str, str]

    def type(self, command: str, *, code: int = 0) -> str:
        """Run a command, which must be on the page."""
        assert command in _commands(), f"{command} isn't on the page"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def defs(self, name: str) -> Path:
        return self.folder / "src" / "mill" / "defs" / name / "defs.yaml"

    @contextmanager
    def dev(self) -> Iterator["subprocess.Popen[bytes]"]:
        """`dg dev`, until the end of the block."""
        log = self.folder.parent / "dev.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(self.environment.root / "bin" / "dg"), "dev", "--port", str(free_port())],
                cwd=self.folder,
                env=self.variables,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            try:
                yield process
                assert process.poll() is None, log.read_text()
                process.send_signal(signal.SIGINT)
                process.wait(120)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def _commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def _yaml(containing: str) -> str:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (block,) = (text for text in blocks if containing in text)
    return str(block)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    root = tmp_path_factory.mktemp("component")
    wheel, _ = build(root)
    made = Environment.make(root)
    made.install(f"headrace[local] @ file://{wheel}")
    for command in ("dagster", "dg"):
        made.add_command(command)
    return made


@pytest.fixture
def project(environment: Environment, aws: LocalAws, tmp_path: Path) -> Project:
    folder = tmp_path / "mill"
    (folder / "src" / "mill" / "defs").mkdir(parents=True)
    for package in (folder / "src" / "mill", folder / "src" / "mill" / "defs"):
        (package / "__init__.py").touch()
    (folder / "src" / "mill" / "definitions.py").write_text(_DEFINITIONS)
    (folder / "pyproject.toml").write_text(_PROJECT)
    for name in ("home", "spark"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    variables = {
        **environment.variables,
        **aws.environment,
        # As an editable install of the project would do.
        "PYTHONPATH": str(folder / "src"),
        "DAGSTER_HOME": str(tmp_path / "home"),
        DISCOVERY: str(tmp_path / "spark" / "connect.json"),
        "COLUMNS": "200",
    }
    return Project(environment, folder, variables)


def test_the_page_leads_from_the_installed_package_to_checked_definitions(project: Project):
    assert "headrace.KinesisConsumer" in project.type("dg list components --package headrace")

    project.type("dg scaffold defs headrace.KinesisConsumer orders --stream orders")
    assert project.defs("orders").read_text() == _yaml('application: "orders"')
    project.type("dg scaffold defs headrace.KinesisConsumer clicks --settings-file ../../../../clicks.yaml")
    assert project.defs("clicks").read_text() == _yaml("clicks.yaml")
    (project.folder / "clicks.yaml").write_text("{application: clicks, streams: [{name: clicks}]}")

    assert "successfully" in project.type("dg check yaml")
    assert "successfully" in project.type("dg check defs")
    listed = project.type("dg list defs")
    for name in ("orders/records", "clicks/records", "orders_worker_", "clicks_upkeep"):
        assert name in listed


def test_a_wrong_name_and_a_wrong_value_are_told_with_file_and_line(project: Project):
    project.type("dg scaffold defs headrace.KinesisConsumer orders --stream orders")
    file, text = project.defs("orders"), project.defs("orders").read_text()

    file.write_text(text.replace("landing:", "landng:"))
    assert f"{file}:{_line(file, 'landng')}" in project.type("dg check yaml", code=1)

    file.write_text(text.replace("TRIM_HORIZON", "SOMEWHERE"))
    told = project.type("dg check defs", code=1)
    assert f"{file}:{_line(file, 'SOMEWHERE')}: streams.0.initial_position is 'SOMEWHERE'" in told


def _line(file: Path, containing: str) -> int:
    lines = file.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if containing in line)


@pytest.mark.slow
def test_the_project_lands_a_stream_and_launches_a_shard_and_a_job(project: Project, aws: LocalAws):
    project.type("dg scaffold defs headrace.KinesisConsumer orders --stream orders")
    # The stand-in serves other tests, too.
    stream = f"orders-{project.folder.parent.name}"
    file = project.defs("orders")
    file.write_text(file.read_text().replace('name: "orders"', f'name: "{stream}"'))
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(count: int) -> None:
        records = [{"Data": b"%d" % n, "PartitionKey": str(n)} for n in range(count)]
        kinesis.put_records(StreamName=stream, Records=records)

    def landed() -> int:
        arguments = ["headrace", "lineage", "--config", str(file), "--json"]
        done = project.environment.command(*arguments, **project.variables)
        return sum(row["records"] for row in json.loads(done.stdout)["ranges"]) if done.stdout else 0

    try:
        put(20)
        with project.dev():
            eventually(lambda: landed() == 20, "20 records have landed", every=2)
            project.type("headrace status --config src/mill/defs/orders/defs.yaml")
        put(7)
        project.type("dg launch --assets orders/records --partition shardId-000000000000")
        assert landed() == 27
        project.type("dg launch --job orders_upkeep")
    finally:
        project.environment.python("-c", _STOP_SPARK, **project.variables)
