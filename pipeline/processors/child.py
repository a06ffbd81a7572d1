"""The process of a record processor, called a child: lines to it and from it, its limits, and its end.

A child is in a process group of its own: a Ctrl-C in a terminal doesn't reach it, and whatever it has started
ends with it. It ends with the thread that has started it, too. What it writes to stderr goes on to the task's
stderr, once.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from headrace.pipeline.processors.stopping import LOOK_EVERY, check_stop

_ACTIONS = frozenset({"status", "checkpoint"})
_CHUNK = 1 << 16
_TAIL = 40
"""Lines of stderr that a message may quote."""
_MOST_LINE = 64 << 20
"""The most bytes of one line. A child that writes more without an end of line is at fault."""
_MOST_ERROR = 1 << 16
"""The most bytes of one line of stderr. A longer one, as of a progress bar, is taken apart."""
_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""How many files a process may open, before a keeper has let itself open more."""

_LAUNCHER = """
import os, resource, sys
parent, files, memory, cpu = (int(word) for word in sys.argv[1:5])
if sys.platform == "linux":
    import ctypes, signal
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
if memory:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
if cpu:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
try:
    os.execvp(sys.argv[5], sys.argv[5:])
except OSError as error:
    sys.exit(f"{sys.argv[5]} can't be started: {error.strerror}")
"""
"""Sets the limits, and then becomes the processor. In a process of its own: the task may have threads, which allow no
code of Python between fork and exec."""


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - the child's stderr is the task's


def launcher(*, memory: int, cpu: int) -> tuple[str, ...]:
    """The beginning of a command line that makes a process end with the thread which starts it, and limits its
    memory (bytes) and CPU time (seconds). 0: no limit.
    """
    numbers = map(str, (os.getpid(), _OPEN_FILES, memory, cpu))
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, *numbers)


class Process(Protocol):
    """The part of a `Popen` that a child needs."""

    stdin: Any
    stdout: Any
    stderr: Any

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class ChildFailed(Exception):
    """The process of a processor has died, or hasn't answered in time."""


@dataclass(slots=True)
class ProcessorChild:
    process: Process
    _in: int
    _out: int
    tell: Callable[[str], None] = to_stderr
    """Takes each line of stderr."""
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))
    """The last lines of stderr."""
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _unsent: bytearray = field(default_factory=bytearray)
    _unread: bytearray = field(default_factory=bytearray)
    _error_text: bytearray = field(default_factory=bytearray)
    _lines: deque[bytes] = field(default_factory=deque)
    is_silent: bool = False
    """Whether its standard output is closed."""

    @classmethod
    def start(
        cls,
        command: tuple[str, ...],
        *,
        folder: str | None,
        environ: Mapping[str, str],
        memory: int,
        cpu: int,
        tell: Callable[[str], None] = to_stderr,
    ) -> ProcessorChild:
        """Start the process of a processor.

        `folder`: its working directory; None for that of this process.

        `memory`, `cpu`: its limits in bytes and seconds; 0: no limit.
        """
        process = subprocess.Popen(  # noqa: S603 - the command is the user's own, from the settings
            (*launcher(memory=memory, cpu=cpu), *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(environ),
            bufsize=0,
            start_new_session=True,
        )
        return cls.of(process, tell)

    @classmethod
    def of(cls, process: Process, tell: Callable[[str], None]) -> ProcessorChild:
        child = cls(process, _number(process.stdin), _number(process.stdout), tell)
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(_number(pipe), False)
        for pipe in (process.stdout, process.stderr):
            child._selector.register(_number(pipe), selectors.EVENT_READ)
        return child

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message, which goes out while an answer is waited for."""
        if not self._unsent:
            self._selector.register(self._in, selectors.EVENT_WRITE)
        self._unsent += json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def hear(self, *, within: float) -> Mapping[str, Any]:
        """The next message of the child. Lines that are no messages are left out, as KCL's daemon does: the
        processor has printed them.

        Raises ChildFailed, and KeyboardInterrupt where the task has to stop.
        """
        until = monotonic() + within
        while True:
            check_stop()
            while self._lines:
                message = _message(self._lines.popleft())
                if message is not None:
                    # What it wrote to stderr before this line is there by now.
                    self._exchange(0)
                    return message
            if self.is_silent:
                raise ChildFailed(self._how_it_ended())
            left = until - monotonic()
            if left <= 0:
                raise ChildFailed(f"the processor hasn't answered within {within:g} s")
            self._exchange(min(left, LOOK_EVERY))

    def drain(self) -> None:
        """Read what the child has written, even while no answer is awaited: otherwise the child would block once
        its pipe is full.
        """
        self._exchange(0)

    def _exchange(self, wait: float) -> None:
        """Read and write what can be read and written, after waiting for it."""
        for key, _ in self._selector.select(wait):
            # Both directions in one loop: a child that writes while its input is full, to a task
            # that only writes as well, would stop both for ever.
            if key.fd == self._in:
                self._write(key.fd)
            elif key.fd == self._out:
                before = len(self._unread)
                self.is_silent |= self._read(key.fd, self._unread)
                if self._unread.find(b"\n", before) >= 0:
                    *lines, self._unread = self._unread.split(b"\n")
                    # What it prints isn't kept: nobody may ask for a message for minutes.
                    self._lines += (bytes(line) for line in lines if line.lstrip().startswith(b"{"))
                if len(self._unread) > _MOST_LINE:
                    raise ChildFailed(
                        f"the processor has written more than {_MOST_LINE >> 20} MiB without an end of line"
                    )
            else:
                is_closed = self._read(key.fd, self._error_text)
                self._tell_errors(is_closed=is_closed)

    def _write(self, number: int) -> None:
        try:
            sent = os.write(number, self._unsent[:_CHUNK])
        except BlockingIOError:
            return
        # What couldn't be sent is dropped. How the child ended is told by its closed output.
        except BrokenPipeError:
            sent = len(self._unsent)
        del self._unsent[:sent]
        if not self._unsent:
            self._selector.unregister(number)

    def _read(self, number: int, into: bytearray) -> bool:
        """Whether the pipe is closed."""
        try:
            text = os.read(number, _CHUNK)
        except BlockingIOError:
            return False
        into += text
        if not text:
            self._selector.unregister(number)
        return not text

    def _tell_errors(self, *, is_closed: bool) -> None:
        *lines, rest = self._error_text.split(b"\n")
        self._error_text = bytearray(rest)
        if rest and (is_closed or len(rest) > _MOST_ERROR):
            lines.append(rest)
            self._error_text = bytearray()
        for line in lines:
            text = line.decode(errors="replace")
            self.errors.append(text)
            self.tell(text)

    def _how_it_ended(self) -> str:
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "the processor has closed its standard output, and its process goes on"
        self._exchange(0)
        if code == -signal.SIGXCPU:
            return "the processor has used more CPU than limits.cpu allows, and was ended"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        quoted = f"; its last words: {self.errors[-1]}" if self.errors else ""
        return f"the processor's process has ended {how}{quoted}"

    def close(self, *, grace: float) -> None:
        """Close the child's input, at whose end it should end by itself, and kill it if it doesn't within `grace`
        seconds.
        """
        self.end_input()
        until = monotonic() + grace
        with suppress(ChildFailed):
            while not self.is_silent and monotonic() < until:
                self._exchange(max(0.0, until - monotonic()))
                self._lines.clear()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=max(0.0, until - monotonic()))
        self.kill()

    def end_input(self) -> None:
        """Close the child's input. A processor ends then."""
        if self._unsent:
            self._unsent.clear()
            self._selector.unregister(self._in)
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def kill(self) -> None:
        """Kill the child and all processes that it has started, and wait for its end."""
        with suppress(ProcessLookupError):
            # The group and not the process: what the user's code has started would outlive the
            # task.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._selector.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _number(pipe: Any) -> int:
    return int(pipe.fileno())


def _message(line: bytes) -> Mapping[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and message.get("action") in _ACTIONS else None
