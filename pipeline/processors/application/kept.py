"""The way of a task to a process that is kept from wave to wave (`headrace.pipeline.processors.application.keeper`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.staging.stage_codec import encode
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.values import ChildSpec

IDLE = 300.0
"""Seconds after which a kept process ends to which no task comes back."""
_MORE = 10.0
"""Seconds that a keeper's answer may take longer than the process's."""


@dataclass(slots=True)
class KeptLines:
    """The lines of a kept process, as a dialogue needs them."""

    _socket: socket.socket
    _lines: Any
    memory: Any
    """What the last task has left; None where the process is new."""
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=40))
    is_over: bool = False
    """Whether the keeper has been told what becomes of the process."""

    def say(self, message: Mapping[str, Any]) -> None:
        self._ask({"say": message})

    def hear(self, *, within: float) -> Mapping[str, Any]:
        # The keeper has its own patience with the process, and answers after it. The socket's comes
        # later, for a keeper that has died or was stopped.
        self._socket.settimeout(within + _MORE)
        self._ask({"hear": within})
        answer = self._answer()
        self.errors.extend(answer["errors"])
        if "failed" in answer:
            raise ChildFailed(answer["failed"])
        heard: Mapping[str, Any] = answer["heard"]
        return heard

    def keep(self, memory: Any) -> None:
        """Leave the user's process alive for the next task of the shard. `memory`: what that task is told."""
        self._ask({"keep": memory})
        self.is_over = True

    def end(self, *, grace: float) -> None:
        if not self.is_over:
            self.is_over = True
            with suppress(ChildFailed):
                self._ask({"end": grace})

    def close(self) -> None:
        with suppress(OSError):
            self._lines.close()
        self._socket.close()

    def _ask(self, asked: Mapping[str, Any]) -> None:
        try:
            self._lines.write(json.dumps(asked, separators=(",", ":")).encode() + b"\n")
            self._lines.flush()
        except OSError as error:
            raise ChildFailed("its keeper has ended") from error

    def _answer(self) -> Mapping[str, Any]:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise ChildFailed("its keeper hasn't answered in time") from error
        if not line:
            raise ChildFailed("its keeper has ended")
        answer: Mapping[str, Any] = json.loads(line)
        return answer


def meeting_place(*names: str) -> Path:
    """Where the keeper of these names is met, in a folder that is this user's alone."""
    folder = Path(tempfile.gettempdir(), f"headrace-kept-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    # The folder for temporary files is everybody's. Whoever made this one first could read the
    # records that pass through its socket.
    facts = folder.lstat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise Unreachable(
            f"the folder {folder} belongs to somebody else, or others may write into it, so that no process of a processor "
            "was started; remove it"
        )
    return folder / sha256("\n".join(names).encode()).hexdigest()[:32]


@contextmanager
def met(place: Path, *, grace: float) -> Iterator[KeptLines | None]:
    """The process that is kept at this place; None where there is none."""
    lines = _connected(place)
    if lines is None:
        yield None
        return
    with _visiting(lines, grace=grace):
        yield lines


@contextmanager
def begun(place: Path, spec: ChildSpec, *, grace: float, idle: float = IDLE) -> Iterator[KeptLines]:
    """A new process, whose keeper is met at this place from now on. One that was there before ends once its visitor has
    left."""
    module = "headrace.pipeline.processors.application.keeper"
    # A file, and not the task's stderr: whoever reads that one to its end would wait for the keeper, which outlives the task.
    with log_of(place).open("wb") as log:
        try:
            started = subprocess.run(  # noqa: S603 - this very Python
                (sys.executable, "-m", module, str(place), str(idle), str(grace)),
                input=encode(spec),
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "PYTHONSAFEPATH": "1",
                },
                # It outlives the task, and a Ctrl-C in a terminal doesn't reach it.
                start_new_session=True,
                check=False,
            )
        except OSError as error:
            raise ChildFailed(f"its keeper couldn't be started on this host: {error}") from error
    lines = _connected(place) if started.returncode == 0 else None
    if lines is None:
        raise ChildFailed(f"its keeper couldn't be started on this host{_last_words(place)}")
    with _visiting(lines, grace=grace):
        yield lines


def log_of(place: Path) -> Path:
    """The file to which the newest keeper of this place, and its process, write their stderr."""
    return place.with_suffix(".log")


def _last_words(place: Path) -> str:
    lines = log_of(place).read_text(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; its last words: {last}" if last else ""


@contextmanager
def _visiting(lines: KeptLines, *, grace: float) -> Iterator[None]:
    try:
        yield
        lines.end(grace=grace)
    except BaseException:
        # After an error nobody knows what the process has got. It isn't kept: it could go on behind
        # records that it never saw.
        lines.end(grace=0)
        raise
    finally:
        lines.close()


def _connected(place: Path) -> KeptLines | None:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(_MORE)
    try:
        client.connect(str(place))
        lines = client.makefile("rwb")
        hello = json.loads(lines.readline())
    except (OSError, ValueError):
        client.close()
        return None
    return KeptLines(client, lines, hello["memory"])
