"""Opening the stage on Spark: what is slow is waited for and told, and what doesn't come is one sentence."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from unittest.mock import Mock

import grpc
import pytest
from pyspark.errors import PySparkException

from pipeline.errors import BadSetting, Unreachable
from pipeline.lake import waiting
from pipeline.lake.session import _await_server, spark_session
from pipeline.lake.stage import SparkStage
from pipeline.lake.waiting import PATIENCE, warn
from pipeline.settings.model import SparkSettings
from tests.lake.stage_script import script

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


class _SlowSession:
    """Runs its first job once somebody lets it, or cancels it."""

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
        assert self.over.wait(60), "nobody lets this job go on"
        if self.is_cancelled:
            raise PySparkException("[OPERATION_CANCELED] by a call")

    def cancelAllJobs(self) -> None:
        self.is_cancelled = True
        self.over.set()


def _stage_on(session: _SlowSession, *, patience: timedelta = PATIENCE) -> SparkStage:
    return SparkStage(lambda _: session, script(), patience=patience)  # type: ignore[arg-type, return-value]


def test_a_first_job_that_is_slow_is_waited_for_with_progress(monkeypatch: pytest.MonkeyPatch):
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


def test_a_first_job_that_never_comes_is_cancelled_and_one_sentence():
    session = _SlowSession()

    with pytest.raises(Unreachable, match=r"it took longer than 0 s; nothing was read.*tries again"):
        _stage_on(session, patience=timedelta(milliseconds=20)).open(warn)

    assert session.is_cancelled


def test_a_sentence_that_cant_be_told_ends_no_start(monkeypatch: pytest.MonkeyPatch):
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


def test_a_spark_that_runs_nothing_is_one_sentence():
    session = Mock()
    session.range.return_value.collect.side_effect = PySparkException("no executor\nfor you")

    with pytest.raises(Unreachable, match=r"^Spark didn't run a first job: no executor; nothing was read"):
        SparkStage(lambda _: session, script()).open(warn)


def test_a_mistake_of_our_own_while_opening_is_not_blamed_on_spark():
    session = Mock()
    session.range.return_value.collect.side_effect = ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        SparkStage(lambda _: session, script()).open(warn)


def _a_free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def test_a_remote_server_that_comes_late_is_waited_for():
    port = _a_free_port()
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"127.0.0.1:{port}")
    late = threading.Timer(1.5, server.start)
    late.start()

    _await_server(f"sc://127.0.0.1:{port}")

    assert not late.is_alive()
    server.stop(None)


def test_a_remote_server_that_doesnt_come_is_one_sentence():
    url = f"sc://127.0.0.1:{_a_free_port()}"

    with pytest.raises(Unreachable, match=f"Spark at {url} didn't answer for 1 s; nothing was read. Check"):
        _await_server(url, timedelta(seconds=1))


def test_an_address_that_is_none_is_refused():
    with pytest.raises(BadSetting, match=r"'sc://host/path' isn't the address of a Spark Connect server"):
        spark_session(SparkSettings(remote="sc://host/path"), "test")
