"""Dagster in processes of its own, and at which steps of a wave they die or wait."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.eventually import eventually

CUT = "E2E_CUT"
"""The environment variable with the folder of `Cuts`."""


@dataclass(frozen=True)
class Cuts:
    """The folder that `cut_definitions` looks into at each step of a wave."""

    folder: Path

    def kill(self, arrow: str) -> None:
        """Let the next run that comes to this step die there."""
        (self.folder / "kill").write_text(arrow)

    def await_killed(self, *, within: float = 60) -> None:
        eventually((self.folder / "killed").exists, "a run was killed at its step", within=within)
        (self.folder / "killed").unlink()

    def hold(self, arrow: str) -> None:
        """Let the next run that comes to this step wait there for `let_go`."""
        (self.folder / "hold").write_text(arrow)

    def await_held(self, *, within: float = 60) -> None:
        eventually((self.folder / "holding").exists, "a run waits at its step", within=within)

    def let_go(self) -> None:
        (self.folder / "hold").unlink()
        (self.folder / "holding").unlink()


@dataclass(frozen=True)
class Processes:
    """Processes that are started in a folder with these environment variables. `close` ends them all."""

    folder: Path
    variables: Mapping[str, str]
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str, program: str = "dagster") -> subprocess.Popen[str]:
        """Start a command of this Python's environment. What the command prints goes to a file."""
        with (self.folder / f"process-{time.monotonic_ns()}.log").open("w") as log:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name(program)), *arguments],
                env={**os.environ, **self.variables},
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,  # in a process group of its own, which `close` ends as a whole
            )
        self._started.append(process)
        return process

    def logs(self) -> str:
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("process-*.log")))

    def close(self) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
