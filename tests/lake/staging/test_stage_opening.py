"""Opening the stage on Spark: a slow Spark is waited for with progress messages; a Spark that doesn't come is an
error of one sentence."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from unittest.mock import Mock

import grpc
import pytest
from pyspark.errors import PySparkException

from headrace.pipeline.errors import BadSetting, Unreachable
from headrace.pipeline.lake.spark import waiting
from headrace.pipeline.lake.spark.server.joining import AUTHENTICATION
from headrace.pipeline.lake.spark.session import _await_server, spark_session
from headrace.pipeline.lake.spark.waiting import PATIENCE, warn
from headrace.pipeline.lake.staging.stage import SparkStage
from headrace.pipeline.settings.model import SparkSettings
from tests.lake.stage_script import script

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


class _SlowSession:
    """A session whose first job ends when the test sets `over` or when the job is cancelled."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.over = threading.Event()
        self.jobs = 0
        self.is_cancelled = False

    def addPyFile(self, path: str) -> None: ...

    def range(self, _rows: int) -> "_SlowSession":
        return self

    def collect(self) -> None:
        self.jobs += 1
        assert self.over.wait(60), "the test neither released nor cancelled this job"
        if self.is_cancelled:
            raise PySparkException("[OPERATION_CANCELED] by a call")

    def cancelAllJobs(self) -> None:
        self.is_cancelled = True
        self.over.set()


def _stage_on(session: _SlowSession, *, patience: timedelta = PATIENCE) -> SparkStage:
    return SparkStage(lambda _: session, script, patience=patience)  # type: ignore[arg-type, return-value]


def test_opening_waits_for_a_slow_first_job_and_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "TELL_EVERY", 0.01)
    session = _SlowSession()
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        if len(told) == 3:
            session.over.set()

    stage = _stage_on(session)
    stage.open(tell)
    stage.open(tell)

    assert "still waiting for Spark to run a first job, for 0 s so far and at most 300 s" in told
    assert session.jobs == 1


def test_a_first_job_that_never_ends_is_cancelled_and_reported_in_one_sentence():
    session = _SlowSession()

    with pytest.raises(Unreachable, match=r"the job took longer than 0 s; nothing was read.*tries again"):
        _stage_on(session, patience=timedelta(milliseconds=20)).open(warn)

    assert session.is_cancelled


def test_an_error_while_a_progress_message_is_written_doesnt_end_the_opening(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "TELL_EVERY", 0.01)
    session = _SlowSession()
    tries = []

    def tell(sentence: str) -> None:
        tries.append(sentence)
        if len(tries) == 3:
            session.over.set()
        raise OSError("the log is full")

    _stage_on(session).open(tell)

    assert len(tries) >= 3


def test_a_first_job_that_fails_is_reported_in_one_sentence():
    session = Mock()
    session.range.return_value.collect.side_effect = PySparkException("no executor\nfor you")

    with pytest.raises(Unreachable, match=r"^Spark didn't run a first job: no executor; nothing was read"):
        SparkStage(lambda _: session, script).open(warn)


def test_an_error_of_headraces_own_code_isnt_reported_as_sparks():
    session = Mock()
    session.range.return_value.collect.side_effect = ValueError("a mistake in Headrace")

    with pytest.raises(ValueError, match="a mistake in Headrace"):
        SparkStage(lambda _: session, script).open(warn)


def _a_free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def test_opening_waits_for_a_remote_server_that_starts_late():
    port = _a_free_port()
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"127.0.0.1:{port}")
    late = threading.Timer(1.5, server.start)
    late.start()

    _await_server(f"sc://127.0.0.1:{port}")

    assert not late.is_alive()
    server.stop(None)


@pytest.mark.usefixtures("joined_spark")
def test_a_worker_on_a_remote_server_can_follow_a_worker_on_the_local_server_in_one_process():
    """PySpark asks each server for TLS, and sends it the token, as long as the environment has the token of the local server."""
    before = os.environ.get(AUTHENTICATION)
    session = spark_session(SparkSettings(), "test")
    try:
        assert session.range(3).count() == 3
    finally:
        session.stop()
    port = _a_free_port()
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()

    _await_server(f"sc://127.0.0.1:{port}", timedelta(seconds=10))

    server.stop(None)
    assert os.environ.get(AUTHENTICATION) == before


def test_a_remote_server_that_doesnt_answer_is_reported_in_one_sentence():
    url = f"sc://127.0.0.1:{_a_free_port()}"

    with pytest.raises(Unreachable, match=f"Spark at {url} didn't answer for 1 s; nothing was read. Check"):
        _await_server(url, timedelta(seconds=1))


def test_an_address_that_isnt_that_of_a_spark_connect_server_is_refused():
    with pytest.raises(BadSetting, match=r"'sc://host/path' isn't the address of a Spark Connect server"):
        spark_session(SparkSettings(remote="sc://host/path"), "test")
