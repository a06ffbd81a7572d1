"""Dagster's daemon, webserver and code server in processes of their own, each started again when it has died, with Spark's server and the
processes of runs, which they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

import dagster as dg

import headrace
from headrace.pipeline.cli.beside.services import environment
from headrace.pipeline.lake.spark.session import DISCOVERY
from tests.ports import free_port

ROOT = Path(headrace.__file__).parents[1]
_MARK = "HEADRACE_CHAOS"
"""Variable in the environment of all processes of a deployment, by which no process of anybody else is ever killed."""
_BACK_AFTER = 2.0
"""Seconds until a process that has died is started again."""


class Part(StrEnum):
    DAEMON = "Dagster's daemon"
    WEBSERVER = "Dagster's webserver"
    CODE_SERVER = "Dagster's code server"
    RUN = "a run's process"
    SPARK_SERVER = "the Spark server"
    PYTHON_WORKER = "a Python worker of Spark"


_SERVICES = (Part.CODE_SERVER, Part.WEBSERVER, Part.DAEMON)


@dataclass
class Deployment:
    """`aws`: the variables that lead to the stand-in."""

    folder: Path
    aws: dict[str, str]
    port: int = field(default_factory=free_port)
    _code_port: int = field(default_factory=free_port)
    _mark: str = field(default_factory=lambda: uuid4().hex)
    _services: dict[Part, subprocess.Popen[bytes]] = field(default_factory=dict)
    _held: set[Part] = field(default_factory=set)
    _ends: threading.Event = field(default_factory=threading.Event)

    @property
    def settings(self) -> Path:
        return self.folder / "headrace.yaml"

    @property
    def dagster_home(self) -> Path:
        return self.folder / "dagster"

    @property
    def environment(self) -> dict[str, str]:
        usual = {
            name: value
            for name, value in os.environ.items()
            if name != DISCOVERY and not name.startswith("AWS_")
        }
        temporary = self.folder / "t"
        temporary.mkdir(exist_ok=True)
        own = {**self.aws, "TMPDIR": str(temporary), _MARK: self._mark}
        return environment({**usual, **own}, self.settings, self.dagster_home)

    @contextmanager
    def running(self) -> Iterator[None]:
        self.dagster_home.mkdir()
        (self.dagster_home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
        (self.folder / "workspace.yaml").write_text(
            f"load_from: [{{grpc_server: {{host: 127.0.0.1, port: {self._code_port}, location_name: headrace}}}}]"
        )
        # The instance makes Dagster's tables: of several processes that make them at once, each writes the version of the tables.
        with dg.DagsterInstance.from_config(str(self.dagster_home)):
            pass
        watch = threading.Thread(target=self._keep_alive, daemon=True)
        try:
            watch.start()
            yield
        finally:
            self._ends.set()
            watch.join(30)
            self._end_all()

    def kill(self, part: Part, *, which: int = 0) -> bool:
        """Kill a process of this kind by SIGKILL. False where there is none. `which`: the one of several."""
        pids = self.pids(part)
        if not pids:
            return False
        # A code server and the process that keeps it are one service.
        for pid in pids if part in _SERVICES else [pids[which % len(pids)]]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def hold_down(self, part: Part) -> None:
        """Kill a service, which isn't started again before `let_go`."""
        self._held.add(part)
        self.kill(part)

    def let_go(self) -> None:
        self._held.clear()

    def pids(self, part: Part) -> list[int]:
        processes = self._processes()
        return [pid for pid in sorted(processes) if _part_of(pid, processes) is part]

    def headrace(self, *words: str, within: float = 240) -> subprocess.CompletedProcess[str]:
        """What a command prints, and its exit code."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "headrace.pipeline.cli", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=within,
        )

    def log(self, part: Part) -> Path:
        return self.folder / f"{part.name.lower()}.log"

    def _keep_alive(self) -> None:
        while not self._ends.is_set():
            for part in _SERVICES:
                process = self._services.get(part)
                if (process is None or process.poll() is not None) and part not in self._held:
                    self._services[part] = self._start(part)
            self._ends.wait(_BACK_AFTER)

    def _start(self, part: Part) -> subprocess.Popen[bytes]:
        workspace = ("-w", str(self.folder / "workspace.yaml"))
        module = ("-m", "headrace.pipeline.definitions", "-d", str(ROOT))
        address = ("-h", "127.0.0.1", "-p", str(self._code_port))
        commands = {
            Part.DAEMON: ("dagster-daemon", "run", *workspace),
            Part.WEBSERVER: ("dagster-webserver", *workspace, "-h", "127.0.0.1", "-p", str(self.port)),
            Part.CODE_SERVER: ("dagster", "code-server", "start", *module, *address),
        }
        program, *arguments = commands[part]
        with self.log(part).open("ab") as log:
            return subprocess.Popen(
                [str(Path(sys.executable).with_name(program)), *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _processes(self) -> dict[int, _Process]:
        """All processes of this deployment, by their ids."""
        mark, processes = f"{_MARK}={self._mark}".encode(), {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # the process has ended, or isn't ours
                continue
            if fields[0] != "Z":
                processes[int(entry.name)] = _Process(int(fields[1]), command)
        return processes

    def _end_all(self) -> None:
        # A process that starts others while it is killed leaves them: the second look finds them.
        for _ in range(3):
            for pid in self._processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._services.values():
                process.wait(30)


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    command: str


def _part_of(pid: int, processes: dict[int, _Process]) -> Part | None:
    """The part of the deployment that a process is; None for helpers."""
    process = processes[pid]
    parent = processes[process.parent].command if process.parent in processes else ""
    command = process.command
    if "dagster-daemon" in command:
        return Part.DAEMON
    if "dagster-webserver" in command:
        return Part.WEBSERVER
    if "dagster code-server start" in command or "dagster api grpc" in command:
        return Part.CODE_SERVER
    # Runs are forks of a server that forks, and have its command line.
    if "multiprocessing.forkserver" in command and "api grpc" not in parent:
        return Part.RUN
    if "SparkConnectServer" in command:
        return Part.SPARK_SERVER
    if "worker_daemon" in command and "worker_daemon" in parent:
        return Part.PYTHON_WORKER
    return None
