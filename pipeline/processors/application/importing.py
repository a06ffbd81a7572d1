"""Processes of processors with `imports: shared`: forks of one process that has imported the user's module
(`headrace.kclpy.importer`)."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import monotonic

from headrace.pipeline.lake.staging.stage_codec import encode
from headrace.pipeline.processors.child import ProcessorChild
from headrace.pipeline.processors.starting import child_environ, folder_of, start_importer
from headrace.pipeline.processors.values import ChildSpec

_GRACE = 5.0
"""Seconds in which an importer ends that nobody needs any more."""


class ForkedProcess:
    """A process that an importer has forked, with the interface of `Popen`."""

    def __init__(self, importer: int, told: int, *pipes: int) -> None:
        """`importer`: its number. `told`: where the importer tells of the process. `pipes`: to its input, from its output and its
        stderr."""
        self._importer = importer
        self._told = open(told, "rb", buffering=0)  # noqa: SIM115 - a file that is open already
        self._text = b""
        self.stdin = open(pipes[0], "wb", buffering=0)  # noqa: PTH123, SIM115
        self.stdout = open(pipes[1], "rb", buffering=0)  # noqa: PTH123, SIM115
        self.stderr = open(pipes[2], "rb", buffering=0)  # noqa: PTH123, SIM115

    @property
    def pid(self) -> int:
        """The id of the process. While the importer is still importing, its own id, because an import that takes
        too long can only be ended so. Raises ProcessLookupError where the process never began.
        """
        self._read(0)
        if self._told.closed and not self._numbers:
            raise ProcessLookupError
        return self._numbers[0] if self._numbers else self._importer

    def poll(self) -> int | None:
        try:
            return self.wait(timeout=0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code."""
        until = None if timeout is None else monotonic() + timeout
        while len(self._numbers) < 2:
            if not self._read(None if until is None else max(0.0, until - monotonic())):
                if self._told.closed:
                    return -signal.SIGKILL
                raise subprocess.TimeoutExpired("the processor", timeout or 0.0)
        self._told.close()
        return self._numbers[1]

    @property
    def _numbers(self) -> list[int]:
        return [int(line) for line in self._text.split(b"\n")[:-1]]

    def _read(self, wait: float | None) -> bool:
        """Read what the importer tells. Whether anything came. An importer that has ended has taken the process with it."""
        if self._told.closed:
            return False
        waiting = select.poll()
        waiting.register(self._told, select.POLLIN)
        if not waiting.poll(None if wait is None else wait * 1000):
            return False
        text = self._told.read(64)
        self._text += text
        if not text:
            self._told.close()
        return bool(text)


@dataclass(slots=True, eq=False)
class _Importer:
    spec: ChildSpec
    environ: Mapping[str, str]
    users: int = 0
    process: Future[tuple[subprocess.Popen[bytes], socket.socket, str]] = field(default_factory=Future)
    """The process, where processes are asked of it, and the folder with the user's modules."""

    def live(self) -> None:
        """Start the process, and wait for its end. In a thread of its own: a process ends with the thread that has started it."""
        try:
            self._live()
        except Exception as error:
            if self.process.done():
                raise
            # Each shard that waits for the process is told.
            self.process.set_exception(error)

    def _live(self) -> None:
        with folder_of(self.spec) as folder:
            door, inner = socket.socketpair()
            with door:
                with inner:
                    process = start_importer(self.spec, folder, self.environ, inner.fileno())
                self.process.set_result((process, door, folder))
                process.wait()
                # What the module has started would stay for ever.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def fork(self, environ: Mapping[str, str], tell: Callable[[str], None]) -> ProcessorChild:
        process, door, folder = self.process.result()
        inner, outer = [], []
        for is_input in (True, False, False, False):
            reads, writes = os.pipe()
            inner.append(reads if is_input else writes)
            outer.append(writes if is_input else reads)
        *pipes, told = outer
        child = ProcessorChild.of(ForkedProcess(process.pid, told, *pipes), tell)
        try:
            try:
                socket.send_fds(door, [b"+"], inner)
            finally:
                for end in inner:
                    os.close(end)
        except OSError:
            child.kill()
            raise
        child.say({"environ": child_environ(folder, environ), "cpu": self.spec.cpu})
        return child

    def end(self) -> None:
        """Let the process end, by force where it doesn't: the module may have started a thread that nothing ends."""
        if self.process.exception() is not None:
            return
        process, door, _ = self.process.result()
        # It may have ended by itself.
        with suppress(OSError):
            door.shutdown(socket.SHUT_RDWR)
        try:
            process.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()


class Importers:
    """The importers of a keeper: one for each processor's code, as long as some shard has a process of that
    processor.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._importers: dict[bytes, tuple[_Importer, Thread]] = {}

    @contextmanager
    def child(
        self, spec: ChildSpec, environ: Mapping[str, str], tell: Callable[[str], None]
    ) -> Iterator[ProcessorChild]:
        """A new process of a processor, which lives until the `with` block ends."""
        importer = self._joined(spec, environ)
        try:
            child = importer.fork(environ, tell)
            try:
                yield child
            finally:
                child.kill()
        finally:
            self._leave(importer)

    def _joined(self, spec: ChildSpec, environ: Mapping[str, str]) -> _Importer:
        key = encode((spec, environ["PYTHONPATH"]))
        with self._lock:
            importer, thread = self._importers.get(key, (None, None))
            if importer is None or thread is None or not thread.is_alive():
                importer = _Importer(spec, environ)
                thread = Thread(target=importer.live)
                thread.start()
                self._importers[key] = importer, thread
            importer.users += 1
            return importer

    def _leave(self, importer: _Importer) -> None:
        with self._lock:
            importer.users -= 1
            if importer.users:
                return
            for key, (other, _) in tuple(self._importers.items()):
                if other is importer:
                    del self._importers[key]
        importer.end()
