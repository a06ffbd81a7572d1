"""`headrace dev` beside a Dagster that somebody else has started on its DAGSTER_HOME."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dagster import DagsterInstance
from dagster._daemon.types import DaemonHeartbeat

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.cli.beside.other_dagster import (
    processes_on,
    require_alone,
    require_no_beat,
)
from headrace.pipeline.errors import BadSetting
from headrace.resources.daemons import forget_beats

WAITS = "import sys; print(flush=True); sys.stdin.read()"
STARTS = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {WAITS!r}, "dagster." + "_daemon run"])
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are looked at on Linux"
)


@contextmanager
def running(home: Path, code: str, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """A process that plays a part of Dagster: only its command line and its environment are looked at."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "DAGSTER_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def test_dev_refuses_beside_a_daemon_on_its_home_and_names_the_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "dagster"
    (tmp_path / "h.yaml").write_text("{application: my-app, streams: [{name: s}], aws: {region: eu-west-1}}")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with running(home, WAITS, "dagster._daemon run") as daemon:
        assert main(["dev", "--config", str(tmp_path / "h.yaml")]) == STOPPED
    said = capsys.readouterr().err
    assert f"dagster._daemon run` (process {daemon.pid}) is running on DAGSTER_HOME {home}" in said
    assert "stop that one first (Ctrl-C or `kill`), or set another DAGSTER_HOME" in said
    assert not (home / "workspace.yaml").exists()


def test_the_command_that_has_started_the_daemon_is_named(tmp_path: Path):
    with running(tmp_path, STARTS, "dagster dev -w workspace.yaml") as dev:
        (other,) = processes_on(tmp_path)
    assert other.pid == dev.pid
    assert other.command.endswith("dagster dev -w workspace.yaml")


def test_a_daemon_on_another_home_and_other_processes_on_this_one_are_no_obstacle(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with (
        running(tmp_path / "other", WAITS, "dagster._daemon run"),
        running(tmp_path / "mine", WAITS, "dagster_webserver"),
    ):
        require_alone(tmp_path / "mine", say=print)
    with running(tmp_path / "link", WAITS, "dagster-daemon run"), pytest.raises(BadSetting):
        require_alone(tmp_path / "mine", say=print)


@dataclass
class Storage:
    """Dagster's storage with the heartbeats of daemons, and the time."""

    daemons: dict[str, float] = field(default_factory=dict)
    """The id of a living daemon, and when it beats next."""
    last: dict[str, float] = field(default_factory=dict)
    time: float = 1000.0
    said: list[str] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds
        for daemon, at in self.daemons.items():
            if at <= self.time:
                self.last[daemon], self.daemons[daemon] = at, at + 30

    def beats(self) -> Mapping[str, float]:
        return dict(self.last)

    def check(self) -> None:
        require_no_beat(Path("home"), self.beats, say=self.said.append, now=self.now, pause=self.pause)


def test_an_old_heartbeat_and_none_stop_nobody():
    for storage in (Storage(), Storage(last={"gone": 966.0})):
        storage.check()
        assert (storage.time, storage.said) == (1000.0, [])


def test_a_daemon_elsewhere_that_beats_again_is_refused():
    storage = Storage(last={"other": 980.0}, daemons={"other": 1010.0})
    with pytest.raises(BadSetting, match="isn't a process of this host is running on DAGSTER_HOME home"):
        storage.check()
    assert storage.said == [
        "a Dagster daemon was at work on DAGSTER_HOME home 20 s ago: waiting for 13 s at most to see whether it still is"
    ]


def test_the_heartbeat_of_a_killed_daemon_holds_the_start_up_for_half_a_minute_at_most():
    storage = Storage(last={"killed": 999.0})
    storage.check()
    assert 30 <= storage.time - 1000 <= 33


def test_a_heartbeat_by_a_clock_that_is_ahead_holds_it_up_no_longer():
    storage = Storage(last={"killed": 5000.0})
    storage.check()
    assert storage.time - 1000 <= 34


def test_a_second_daemon_beside_a_dead_one_is_seen():
    storage = Storage(last={"dead": 1000.0, "other": 975.0}, daemons={"other": 1005.0})
    with pytest.raises(BadSetting):
        storage.check()


def test_the_daemon_that_headrace_itself_has_stopped_holds_nobody_up(tmp_path: Path):
    (tmp_path / "dagster.yaml").touch()
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "SENSOR", "ours"))
    forget_beats(tmp_path)
    said: list[str] = []
    require_alone(tmp_path, say=said.append)
    assert said == []
