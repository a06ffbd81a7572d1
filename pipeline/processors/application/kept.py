"""The connection of a task to a process that is kept from wave to wave
(`headrace.pipeline.processors.application.keeper`).
"""

from __future__ import annotations

import json
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

import msgspec

from headrace.pipeline.processors.application.keeper import StartRequest
from headrace.pipeline.processors.application.places import forget_old_logs, log_of, meeting_place
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.starting import own_environ
from headrace.pipeline.processors.values import ChildSpec

IDLE = 300.0
"""Seconds after which a kept process ends to which no task comes back."""
_MORE = 10.0
"""Seconds that a keeper's answer may take longer than the process's."""
_BEGUN_WITHIN = 60.0
"""Seconds within which a keeper has begun a process: all shards of a run may want one at once."""
_KEEPER_IDLE = 30.0
"""Seconds after which a keeper ends that has no process."""
_KEEPER = "headrace.pipeline.processors.application.keeper"


@dataclass(slots=True)
class KeptLines:
    """The lines to and from a kept process, as a dialogue needs them."""

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
        """Leave the user's process alive for the next task of the shard. `memory`: what the next task gets to
        know about the process.
        """
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
            self._lines.write(msgspec.json.encode(request) + b"\n")
            self._lines.flush()
        except OSError as error:
            raise ChildFailed("the processor's keeper has ended") from error

    def _answer(self) -> Mapping[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError as error:
            raise ChildFailed("the processor's keeper hasn't answered in time") from error
        except OSError as error:
            # A keeper that is killed while something waits to be read by it resets the connection.
            raise ChildFailed("the processor's keeper has ended") from error
        if not line:
            raise ChildFailed("the processor's keeper has ended")
        answer: Mapping[str, Any] = json.loads(line)
        return answer


@contextmanager
def met(place: Path, *, grace: float) -> Iterator[KeptLines | None]:
    """A connection to the process that is kept at this place; None where there is none."""
    lines = _connected(place)
    if lines is None:
        yield None
        return
    with _visiting(lines, grace=grace):
        yield lines


@contextmanager
def begun(place: Path, spec: ChildSpec, *, grace: float, idle: float = IDLE) -> Iterator[KeptLines]:
    """A connection to a new process, which later tasks find at this place. A process that was there before ends
    once the task that uses it has left.
    """
    log_of(place).write_bytes(b"")
    forget_old_logs(place.parent, time.time())
    lines = _begun(StartRequest.of_this_process(place, spec, idle=idle, grace=grace))
    with _visiting(lines, grace=grace):
        yield lines


def _begun(request: StartRequest) -> KeptLines:
    """The new process that the keeper of this host has begun. Raises ChildFailed."""
    why: Exception | None = None
    # The keeper that is met first may be ending for want of work.
    for _ in range(2):
        try:
            with _client(_BEGUN_WITHIN) as client:
                _open_keeper(keeper_place(), client)
                client.sendall(request.line())
                return _greeted(client)
        except TimeoutError:
            # Asked a second time, it would begin a second process.
            raise ChildFailed(
                f"the processor's keeper hasn't begun it within {_BEGUN_WITHIN:.0f} s"
            ) from None
        except (OSError, ValueError) as error:
            why = error
    raise ChildFailed(f"the processor's keeper couldn't be started on this host: {why}")


def keeper_place() -> Path:
    """The place of the keeper that runs this process's Python and code."""
    # Other code at the same paths couldn't be talked with. That of a zip has a path of its own for each session.
    modules = Path(__file__).parents[1].rglob("*.py")
    code = str(max((module.stat().st_mtime_ns for module in modules), default=""))
    return meeting_place("keeper", sys.executable, *sys.path, code)


def _open_keeper(place: Path, client: socket.socket) -> None:
    # Two shards of a wave may need it at once.
    with place.with_suffix(".lock").open("wb") as lock:
        flock(lock, LOCK_EX)
        try:
            client.connect(str(place))
        except OSError:
            _start_keeper(place)
            client.connect(str(place))


def _start_keeper(place: Path) -> None:
    # A file, and not the task's stderr: whoever reads that one to its end would wait for the keeper, which outlives the task.
    log = log_of(place)
    with log.open("wb") as errors:
        try:
            started = subprocess.run(  # noqa: S603 - this very Python
                (sys.executable, "-m", _KEEPER, str(place), str(_KEEPER_IDLE)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # One area for the memory of all threads: one for each would keep what it has once needed.
                env={**own_environ(), "MALLOC_ARENA_MAX": "1"},
                # It outlives the task, and a Ctrl-C in a terminal doesn't reach it.
                start_new_session=True,
                check=False,
            )
        except OSError as error:
            raise ChildFailed(f"the processor's keeper couldn't be started on this host: {error}") from error
    if started.returncode:
        raise ChildFailed(f"the processor's keeper couldn't be started on this host{_last_words(log)}")


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
    try:
        with _client(_MORE) as client:
            client.connect(str(place))
            return _greeted(client)
    except (OSError, ValueError):
        return None


@contextmanager
def _client(patience: float) -> Iterator[socket.socket]:
    """A socket, which stays open unless an error occurs."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(patience)
    try:
        yield client
    except BaseException:
        client.close()
        raise


def _greeted(client: socket.socket) -> KeptLines:
    """The lines of the process behind this door. Raises ChildFailed where it couldn't be started, and ValueError where its keeper
    has ended."""
    lines = client.makefile("rwb")
    try:
        line = lines.readline()
        if not line.endswith(b"\n"):
            raise ValueError("the processor's keeper has ended")
        hello = msgspec.json.decode(line)
        if "failed" in hello:
            raise ChildFailed(f"the processor's keeper couldn't start it: {hello['failed']}")
    except BaseException:
        # A socket stays open as long as there are lines of it. The error has these, and may live on: the keeper would keep a
        # process for a task that has given up.
        lines.close()
        raise
    return KeptLines(client, lines, hello["memory"])
