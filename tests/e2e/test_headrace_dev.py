"""A real `headrace dev` in a process of its own: what it does when one of Dagster's processes dies, and what it
leaves behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from headrace.pipeline.cli.beside import services
from headrace.pipeline.cli.beside.holding import LOCK
from headrace.pipeline.lake.spark.server.facts import servers_of_user
from headrace.pipeline.lake.spark.session import DISCOVERY
from tests.e2e.app import App
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually
from tests.modes import open_to_others, usual_umask
from tests.ports import free_port

pytestmark = pytest.mark.slow

DAEMON, WEBSERVER, CODE_SERVER = "dagster._daemon run", "dagster_webserver", "dagster api grpc"
CODE_SERVER_PROXY = "dagster code-server start"
FIRST_START_WITHIN = 240.0
"""Seconds: Spark starts, then Dagster, on a machine that runs other tests at the same time."""


@dataclass
class Dev:
    """A running `headrace dev`, with what it prints and the processes that it started."""

    app: App
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def dagster_home(self) -> Path:
        return self.app.dagster_home

    @property
    def group(self) -> int:
        """The id of Dagster's process group."""
        return int(json.loads((self.dagster_home / LOCK).read_text())["dagster"])

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def await_told(self, text: str, within: float = 120) -> None:
        def is_told() -> bool:
            assert self.process.poll() is None, self.text()
            return text in self.text()

        eventually(is_told, f"headrace dev says {text!r}", within=within)

    def pid_of(self, part: str) -> int:
        """The id of Dagster's process that has this text in its command line."""
        command = ["ps", "-A", "-ww", "-o", "pid=", "-o", "pgid=", "-o", "command="]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        [pid] = [line.split()[0] for line in lines if line.split()[1] == str(self.group) and part in line]
        return int(pid)

    def last_sentence(self) -> str:
        return [line for line in self.text().splitlines() if line.startswith("headrace: ")][-1]

    def leftovers(self) -> list[str]:
        """The processes that still run with this DAGSTER_HOME in their command line or environment."""
        command = ["ps", "axeww", "-o", "pid=", "-o", "command="]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in lines if f"DAGSTER_HOME={self.dagster_home}" in line]


@pytest.fixture
def app(make_app: MakeApp) -> App:
    """An application with times so long that a run on a busy machine doesn't count as dead."""
    return make_app(
        times={
            "worker_tick": "5s",
            "leader_tick": "5s",
            "lease_duration": "15s",
            "launch_grace": "60s",
            "linger": "60s",
        }
    )


@pytest.fixture
def dev(app: App) -> Iterator[Dev]:
    """A started `headrace dev` with the usual umask, on a DAGSTER_HOME that doesn't exist before."""
    (app.dagster_home / "dagster.yaml").unlink()
    app.dagster_home.rmdir()
    with usual_umask():
        made = Dev(app, _started(app, "dev.log"), app.home / "dev.log")
    try:
        made.await_told("UI at http://", within=FIRST_START_WITHIN)
        yield made
    finally:
        if made.process.poll() is None:
            made.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                made.process.wait(120)
            made.process.kill()


def _started(app: App, log: str) -> "subprocess.Popen[bytes]":
    env = {
        k: v for k, v in os.environ.items() if k != DISCOVERY
    }  # this process has a Spark server of its own
    with (app.home / log).open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "headrace.pipeline.cli", "dev", "--port", str(free_port())],
            cwd=app.home,
            env={
                **env,
                **app.aws.environment,
                "HEADRACE_CONFIG": str(app.config),
                "DAGSTER_HOME": str(app.dagster_home),
                "PYTHONPATH": str(services.ROOT),
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _runs(app: App, *statuses: dg.DagsterRunStatus) -> list[str]:
    return [run.run_id for run in app.instance.get_runs(dg.RunsFilter(statuses=list(statuses)))]


def test_a_run_goes_on_beside_a_refused_second_headrace_dev_and_all_files_are_private(dev: Dev):
    app = dev.app
    app.produce(40)
    at_work = partial(_runs, app, dg.DagsterRunStatus.STARTED)
    [run] = eventually(at_work, "a run is at work", within=120)

    second = _started(app, "second.log")
    assert second.wait(60) == 2
    refusal = (app.home / "second.log").read_text()
    assert f"`headrace dev` (process {dev.process.pid}, since " in refusal

    eventually(lambda: len(app.landed()) == 40, "every record that was put has landed", within=120)
    with suppress(ProcessLookupError):
        second.kill()
    assert _runs(app, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE) == []
    assert run in _runs(app)
    assert open_to_others(dev.dagster_home) == {}, "files in DAGSTER_HOME are private while Dagster runs"
    assert open_to_others(app.home / "lake") == {}

    dev.process.send_signal(signal.SIGTERM)

    assert dev.process.wait(180) == 0, dev.text()
    assert dev.leftovers() == []
    assert open_to_others(dev.dagster_home) == {}
    assert open_to_others(app.home / "lake") == {}
    assert any(path.suffix == ".parquet" for path in (app.home / "lake").rglob("*"))
    assert _runs(app, dg.DagsterRunStatus.FAILURE) == []
    app.check()


def test_ticks_that_fail_for_a_known_reason_or_at_the_end_print_no_stack(dev: Dev):
    dev.app.kinesis.delete_stream(StreamName=dev.app.name)
    dev.await_told(f"headrace: the sensor {dev.app.name}_leader failed: there is no stream {dev.app.name}")
    # The daemon begins ticks just now.
    seen = dev.text().count("Checking for new runs")
    eventually(lambda: dev.text().count("Checking for new runs") > seen, "a tick begins", within=60)
    os.kill(dev.group, signal.SIGINT)
    assert dev.process.wait(240) == 75, dev.text()
    assert "Traceback" not in dev.text()


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (DAEMON, "Dagster's daemon (`dagster-daemon`)"),
        (WEBSERVER, "Dagster's webserver (`dagster-webserver`)"),
        (CODE_SERVER, "Dagster's code server (`dagster api grpc`)"),
    ],
    ids=["daemon", "webserver", "code server"],
)
def test_headrace_dev_names_a_dagster_process_that_died_ends_the_others_and_fails(
    dev: Dev, part: str, name: str
):
    os.kill(dev.pid_of(part), signal.SIGKILL)
    assert dev.process.wait(240) == 75, dev.text()
    assert dev.last_sentence().startswith(f"headrace: {name} died.")
    assert dev.leftovers() == []
    keys = [server.key for server in servers_of_user()]
    assert str(dev.dagster_home) not in {key.dagster_home for key in keys if key}


def test_a_code_server_proxy_that_dagster_starts_again_doesnt_end_headrace_dev(dev: Dev):
    before = dev.pid_of(CODE_SERVER_PROXY)
    os.kill(before, signal.SIGKILL)
    dev.await_told("Restarting the code server process")
    dev.app.produce(20)
    eventually(partial(_runs, dev.app), "the sensors tick again and ask for a run", within=240)
    eventually(lambda: len(dev.app.landed()) == 20, "every record that was put has landed", within=120)
    assert dev.process.poll() is None
    assert dev.pid_of(CODE_SERVER_PROXY) != before
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(180) == 0, dev.text()
