"""The local Spark server is found or started, however slow the machine is. If it dies, the error shows its log."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake import local_server, waiting
from headrace.pipeline.lake.local_server import is_server
from headrace.pipeline.lake.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.settings.model import SparkSettings
from tests.eventually import eventually

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

JAVA = Path(os.environ.get("JAVA_HOME", "/usr"), "bin", "java")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder with the files of this test's own server."""
    monkeypatch.setenv(DISCOVERY, str(tmp_path / "connect.json"))
    yield tmp_path
    stop_local_server()
    for file in tmp_path.glob("*.pid"):
        if is_server(pid := int(file.read_text())):
            os.kill(pid, signal.SIGKILL)


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
    return int(json.loads((folder / "connect.json").read_text())["pid"])


@pytest.mark.slow
def test_the_client_waits_for_a_slow_start_and_reports_progress(
    folder: Path, progress_log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """The start takes longer than PySpark would wait, which is 120 s on a real machine."""
    monkeypatch.setattr("pyspark.sql.connect.local_server.ServerLauncher._READY_TIMEOUT", 1)
    assert count_in_a_session(a_java(folder, f'sleep 2; exec {JAVA} "$@"')) == 3
    assert "still waiting for the local Spark server" in progress_log.text
    assert f"its log is {folder / 'logs'}" in progress_log.text


def test_a_server_that_dies_while_it_starts_is_an_error_with_its_log(folder: Path):
    with pytest.raises(
        Unreachable, match=r"the local Spark server didn't start: .* its log is (\S+)"
    ) as error:
        count_in_a_session(a_java(folder, "echo no memory is left >&2; exit 1"))
    log = Path(str(error.value).rpartition(" ")[2])
    assert "no memory is left" in log.read_text()


@pytest.mark.slow
def test_a_server_that_isnt_up_in_time_is_an_error_with_its_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    usual = local_server.bring_up.__kwdefaults__ or {}
    impatient = {**usual, "patience": waiting.PATIENCE / 150}
    monkeypatch.setattr(local_server.bring_up, "__kwdefaults__", impatient)
    with pytest.raises(Unreachable, match=r"did not become ready within 2 seconds.* its log is "):
        count_in_a_session(a_java(folder, f'sleep 20; exec {JAVA} "$@"'))


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
    eventually(lambda: not is_server(first), "the first run has ended")


@pytest.mark.slow
def test_a_server_that_died_is_started_again(folder: Path):
    assert count_in_a_session() == 3
    os.kill(first := pid_of_the_server(folder), signal.SIGKILL)
    assert count_in_a_session() == 3
    assert pid_of_the_server(folder) != first
