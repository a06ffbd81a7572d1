"""The local Spark server is found or started, however slow the machine is. If it dies, the error shows its log."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.spark import waiting
from headrace.pipeline.lake.spark.server.joining import ServerStart, bring_up
from headrace.pipeline.lake.spark.server.process import end, is_server, pid_of
from headrace.pipeline.lake.spark.server.users import joining
from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.settings.model import SparkSettings
from tests.eventually import eventually

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

JAVA = Path(os.environ.get("JAVA_HOME", "/usr"), "bin", "java")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder with the files of this test's own server."""
    monkeypatch.setenv(DISCOVERY, str(tmp_path / "connect.json"))
    yield tmp_path
    stop_local_server()


@pytest.fixture
def progress_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(waiting, "TELL_EVERY", 0.5)
    return caplog


def a_java(folder: Path, script: str) -> str:
    """A JAVA_HOME whose `java` is a script."""
    java = folder / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/bash\n{script}\n")
    java.chmod(0o755)
    return str(folder / "jvm")


def count_in_a_session(java_home: str | None = None) -> int:
    session = spark_session(SparkSettings(), "test", java_home=java_home)
    try:
        return session.range(3).count()
    finally:
        session.stop()


def pid_of_the_server(folder: Path) -> int:
    pid = pid_of(folder)
    assert pid is not None
    assert is_server(pid, folder)
    return pid


@pytest.mark.slow
def test_the_client_waits_for_a_slow_start_and_reports_progress(
    folder: Path, progress_log: pytest.LogCaptureFixture
):
    assert count_in_a_session(a_java(folder, f'sleep 2; exec {JAVA} "$@"')) == 3
    assert "still waiting for the local Spark server" in progress_log.text
    assert f"The log of the local Spark server is {folder / 'logs'}" in progress_log.text


def test_a_server_that_dies_while_it_starts_is_an_error_with_its_log(folder: Path):
    with pytest.raises(
        Unreachable,
        match=r"the local Spark server didn't start: the server ended while it started\. .* its log is (\S+)",
    ) as error:
        count_in_a_session(a_java(folder, "echo no memory is left >&2; exit 1"))
    log = Path(str(error.value).rpartition(" ")[2])
    assert "no memory is left" in log.read_text()


def test_a_server_that_isnt_up_in_time_is_ended_and_is_an_error_with_its_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JAVA_HOME", a_java(folder, f'sleep 20; exec {JAVA} "$@"'))
    impatient = ServerStart(master="local[1]", conf={}, patience=timedelta(seconds=1))
    with pytest.raises(Unreachable, match=r"the server wasn't up within 1 s.* its log is "):
        bring_up(folder, impatient, user="the test")
    assert pid_of(folder) is None


def test_two_processes_of_one_project_that_start_at_once_share_one_server(folder: Path):
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from headrace.pipeline.lake.spark.session import spark_session\n"
        "from headrace.pipeline.settings.model import SparkSettings\n"
        "session = spark_session(SparkSettings(), 'test')\n"
        "print(session.range(3).count(), session.conf.get('spark.app.id'))\n"
        "session.stop()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    with (
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as second,
    ):
        told = {process.communicate(timeout=120)[0] for process in (first, second)}
    [line] = told
    assert line.startswith("3 ")
    assert len(list((folder / "logs").iterdir())) == 1, "one server was started"


@pytest.mark.slow
def test_the_client_waits_for_a_server_that_stopped_answering(
    folder: Path, progress_log: pytest.LogCaptureFixture
):
    assert count_in_a_session() == 3
    server = pid_of_the_server(folder)
    os.kill(server, signal.SIGSTOP)
    goes_on = threading.Timer(4, os.kill, (server, signal.SIGCONT))
    goes_on.start()
    began = time.monotonic()
    assert count_in_a_session() == 3
    goes_on.join()
    assert time.monotonic() - began >= 3
    assert pid_of_the_server(folder) == server, "the same server is used"
    assert "still waiting for the local Spark server" in progress_log.text


@pytest.mark.slow
def test_a_server_is_replaced_if_its_starter_was_killed_before_it_wrote_the_address(folder: Path):
    assert count_in_a_session() == 3
    first = pid_of_the_server(folder)
    (folder / "connect.json").unlink()
    assert count_in_a_session() == 3
    assert pid_of_the_server(folder) != first
    eventually(lambda: not is_server(first, folder), "the first server has ended")


@pytest.mark.slow
def test_a_server_that_died_is_started_again(folder: Path):
    assert count_in_a_session() == 3
    os.kill(first := pid_of_the_server(folder), signal.SIGKILL)
    assert count_in_a_session() == 3
    assert pid_of_the_server(folder) != first


@pytest.mark.slow
def test_a_job_on_a_server_that_was_killed_fails_and_isnt_tried_for_ten_minutes(folder: Path):
    session = spark_session(SparkSettings(), "test")
    assert session.range(3).count() == 3
    failures: list[Exception] = []

    def job() -> None:
        try:
            session.range(3).count()
        except Exception as failure:  # noqa: BLE001 - of PySpark or of gRPC
            failures.append(failure)

    os.kill(pid_of_the_server(folder), signal.SIGKILL)
    waiting_job = threading.Thread(target=job, daemon=True)
    waiting_job.start()
    waiting_job.join(100)

    assert len(failures) == 1
    session.stop()


@pytest.mark.slow
def test_a_process_that_wants_to_join_a_server_that_is_being_ended_starts_a_new_one(folder: Path):
    assert count_in_a_session() == 3
    first = pid_of_the_server(folder)
    with joining(folder) as is_mine:  # as the watching process does
        assert is_mine
        counts: list[int] = []
        joins = threading.Thread(target=lambda: counts.append(count_in_a_session()))
        joins.start()
        end(folder)
    joins.join()
    assert counts == [3]
    assert pid_of_the_server(folder) != first
