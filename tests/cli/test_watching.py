"""Which of Dagster's processes has died, found from the command lines of the living ones."""

import os
import signal
import sys

import pytest

from headrace.pipeline.cli.beside.services import Group, relay_command
from headrace.pipeline.cli.live.watching import Watch, until_a_process_dies
from headrace.pipeline.errors import ProcessDied

PROXY = "python -m dagster code-server start --socket /tmp/a"
CODE_SERVER = "python -m dagster api grpc --lazy-load-user-code --socket /tmp/b"
WEBSERVER = "python -m dagster_webserver --port 3000"
DAEMON = "python -m dagster._daemon run --log-level info"
ALL = [PROXY, CODE_SERVER, WEBSERVER, DAEMON]


class Seconds:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def reported_without(*gone: str) -> str | None:
    watch = Watch(Seconds())
    assert watch.dead(ALL) is None
    return watch.dead([each for each in ALL if each not in gone])


def test_a_missing_daemon_or_webserver_is_reported_at_once():
    assert reported_without(DAEMON) == "Dagster's daemon (`dagster-daemon`)"
    assert reported_without(WEBSERVER) == "Dagster's webserver (`dagster-webserver`)"


def test_a_missing_code_server_proxy_isnt_reported_because_dagster_restarts_it():
    assert reported_without(PROXY) is None
    assert reported_without(PROXY, CODE_SERVER) is None


def test_a_missing_code_server_is_reported_after_half_a_minute():
    seconds = Seconds()
    watch = Watch(seconds)
    without = [each for each in ALL if each != CODE_SERVER]
    assert watch.dead(without) is None
    seconds.now += 29
    assert watch.dead(without) is None
    assert watch.dead(ALL) is None, "the code server was started again"
    seconds.now += 10
    assert watch.dead(without) is None
    seconds.now += 29
    assert watch.dead(without) is None
    seconds.now += 1
    assert watch.dead(without) == "Dagster's code server (`dagster api grpc`)"


def test_a_dagster_whose_output_nobody_prints_any_more_is_reported():
    """What writes to it fails then: a run would end because a hook of the user's prints a line."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    group = Group([*sleep, *ALL], env=os.environ, relay=relay_command())
    try:
        assert group.relay_pid is not None
        os.kill(group.relay_pid, signal.SIGKILL)
        with pytest.raises(ProcessDied, match="the process that prints Dagster's output"):
            until_a_process_dies(group)
    finally:
        group.stop(is_starting=True)
