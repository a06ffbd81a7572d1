"""A whole deployment of Headrace: `headrace dev` with Dagster's daemon and UI, its runs, and Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.pipeline.cli.beside import services
from headrace.pipeline.cli.beside.holding import LOCK
from headrace.pipeline.lake.spark.server.facts import servers_of_user
from headrace.pipeline.lake.spark.server.process import end
from headrace.pipeline.lake.spark.session import DISCOVERY
from tests.eventually import eventually
from tests.interop.fleet import Event, Fleet
from tests.interop.landed import Lake
from tests.interop.overlaps import Commit

_UP_SECONDS = 240.0  # Spark starts, then Dagster, on a machine that runs KCL workers at the same time
_STOP_SECONDS = 240.0
_LOOK_EVERY = 2.0


@dataclass(slots=True)
class Deployment:
    """A deployment prints no events. What it read is known by the commits to its table."""

    worker: str
    lake: Lake
    folder: Path
    process: subprocess.Popen[bytes]
    _known: list[Event] = field(default_factory=list)
    _looked: float = 0.0

    @classmethod
    def start(cls, fleet: Fleet, worker: str, config: Path, lake: Lake) -> Deployment:
        """Start the deployment in the fleet with a new DAGSTER_HOME, and wait until its UI answers."""
        folder = fleet.folder / f"{worker}-{time.time_ns()}"
        folder.mkdir()
        port = next(port for port in range(4950, 65536) if services.is_port_free(port))
        home = {"HEADRACE_CONFIG": str(config), "DAGSTER_HOME": str(folder)}
        with (folder / "dev.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace.pipeline.cli", "dev", "--port", str(port)],
                cwd=folder,
                env={k: v for k, v in fleet.environment.items() if k != DISCOVERY} | home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        made = cls(worker, lake, folder, process)
        fleet.workers[worker] = made
        eventually(made._is_up, f"headrace dev is up ({folder}/dev.log)", within=_UP_SECONDS)
        return made

    def _is_up(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"headrace dev ended: {self.output()}")
        return "UI at http://" in self.output().rpartition("press Ctrl-C")[0]

    def output(self) -> str:
        return (self.folder / "dev.log").read_text(errors="replace")

    def events(self) -> list[Event]:
        """A commit proves that this worker read the shard. Each commit counts as a beginning of reading, too."""
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._known = [event for commit in self.lake.commits() for event in _events(self.worker, commit)]
            self._looked = time.monotonic()
        return self._known

    def kill(self) -> None:
        """Kill the command, Dagster's process group with its runs, and the Spark server, which would go on
        otherwise."""
        lock = self.folder / LOCK
        dagster = json.loads(lock.read_text() or "{}").get("dagster") if lock.exists() else None
        for group in filter(None, (self.process.pid, dagster)):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.process.wait()
        for server in servers_of_user():
            if (
                server.key is not None
                and server.key.dagster_home == str(self.folder)
                and server.process.folder
            ):
                end(server.process.folder)

    def stop(self) -> None:
        """Stop the deployment. The leases are given up, runs end, and the exit code is 0."""
        self.process.terminate()
        code = self.process.wait(_STOP_SECONDS)
        if code:
            raise RuntimeError(f"headrace dev ended with {code}: {self.output()}")


def _events(worker: str, commit: Commit) -> list[Event]:
    found = [Event(commit.at, "initialize", worker, commit.shard)]
    if commit.rows:
        found.append(Event(commit.at, "landed", worker, commit.shard, (str(commit.rows),)))
    if commit.ended:
        found.append(Event(commit.at, "shardEnded", worker, commit.shard))
    return found
