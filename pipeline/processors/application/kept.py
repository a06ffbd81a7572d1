"""The way of a task to a process that is kept from wave to wave (`headrace.pipeline.processors.application.keeper`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from headrace.pipeline.processors.application.nursery import ForkRequest
from headrace.pipeline.processors.application.places import forget_old_logs, log_of, meeting_place
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.values import ChildSpec

IDLE = 300.0
"""Seconds after which a kept process ends to which no task comes back."""
_MORE = 10.0
"""Seconds that a keeper's answer may take longer than the process's."""
_FORKED_WITHIN = 60.0
"""Seconds within which the nursery has forked a keeper: it forks those of a run one after the other."""
_NURSERY_IDLE = 30.0
"""Seconds after which a nursery ends from which no keeper is wanted: they are wanted together, when a run claims its shards."""
_NURSERY = "headrace.pipeline.processors.application.nursery"


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

    def _ask(self, request: Mapping[str, Any]) -> None:
        try:
            self._lines.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
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
    log = log_of(place)
    log.write_bytes(b"")
    forget_old_logs(place.parent, time.time())
    request = ForkRequest.of_this_process(place, log, spec, idle=idle, grace=grace)
    is_forked = _fork(request)
    lines = _connected(place) if is_forked else None
    if lines is None:
        raise ChildFailed(f"its keeper couldn't be started on this host{_last_words(log)}")
    with _visiting(lines, grace=grace):
        yield lines


def _fork(request: ForkRequest) -> bool:
    """Whether the nursery of this host has forked the keeper; where it couldn't, the keeper's log has the reason. Raises ChildFailed
    where the nursery can't be met."""
    why: Exception | None = None
    # The nursery that is met first may be ending for want of work.
    for _ in range(2):
        try:
            return not _answered(request)["failed"]
        except TimeoutError:
            # Asked a second time, it would fork a second keeper.
            raise ChildFailed(
                f"its keeper wasn't started on this host within {_FORKED_WITHIN:.0f} s"
            ) from None
        except (OSError, ValueError) as error:
            why = error
    raise ChildFailed(f"its keeper couldn't be started on this host: {why}")


def _answered(request: ForkRequest) -> dict[str, Any]:
    """The nursery's answer. Raises ValueError where the nursery ended before it answered."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_FORKED_WITHIN)
        _open_nursery(nursery_place(), client)
        client.sendall(request.line())
        with client.makefile("rb") as lines:
            answer: dict[str, Any] = json.loads(lines.readline())
    return answer


def nursery_place() -> Path:
    """Where the nursery is met that has this process's Python and code."""
    # Other code at the same paths couldn't be talked with. That of a zip has a path of its own for each session.
    modules = Path(__file__).parents[1].rglob("*.py")
    code = str(max((module.stat().st_mtime_ns for module in modules), default=""))
    return meeting_place("nursery", sys.executable, *sys.path, code)


def _open_nursery(place: Path, client: socket.socket) -> None:
    # Two shards of a wave may need it at once.
    with place.with_suffix(".lock").open("wb") as lock:
        flock(lock, LOCK_EX)
        try:
            client.connect(str(place))
        except OSError:
            _start_nursery(place)
            client.connect(str(place))


def _start_nursery(place: Path) -> None:
    # A file, and not the task's stderr: whoever reads that one to its end would wait for the nursery, which outlives the task.
    log = log_of(place)
    with log.open("wb") as errors:
        try:
            started = subprocess.run(  # noqa: S603 - this very Python
                (sys.executable, "-m", _NURSERY, str(place), str(_NURSERY_IDLE)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
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
    if started.returncode:
        raise ChildFailed(f"its keeper couldn't be started on this host{_last_words(log)}")


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
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
