"""The keeper of a host: a process beside Spark's workers that holds the processes of record processors, so that
an instance of a processor lives on from wave to wave. Each of the keeper's threads holds one process.

    task of a wave ──StartRequest──► keeper ──► a thread, which tasks of later waves meet at the place of the shard
          └────────────────────────lines──────────►│──lines──► process of the processor
                what the next wave has to know ───►┘

    python -m headrace.pipeline.processors.application.keeper SOCKET IDLE

If a task dies suddenly, as in a cancelled run, nobody knows which records its processor has got. The process then
gets some seconds to end, and no checkpoint of it is accepted any more. A process ends in the same way if no task
comes back to it, or if another process has taken its place. All processes end with the keeper, and the next wave
starts new ones at the checkpoints in the rows.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Thread, active_count
from time import monotonic, sleep
from typing import Any, TextIO

import msgspec

from headrace.kclpy.open_files import open_more_files
from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.processors.application.importing import Importers
from headrace.pipeline.processors.application.places import bound, is_own, log_of, number_of
from headrace.pipeline.processors.checkpoints import Checkpoints
from headrace.pipeline.processors.child import ChildFailed, ProcessorChild
from headrace.pipeline.processors.dialogue import CallFailed, Dialogue
from headrace.pipeline.processors.starting import folder_of, own_environ, start_child
from headrace.pipeline.processors.values import ChildSpec

_LOOK_EVERY = 0.5
"""Seconds between two looks at what a process writes while no task is there."""
_PATIENCE = 10.0
"""Seconds within which a task has sent its whole request."""
_importers = Importers()


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A task's request to a keeper for a new process, which gets the task's environment."""

    place: str
    """Where tasks of later waves meet the process."""
    idle: float
    grace: float
    child: str
    """The ChildSpec."""
    environ: dict[str, str]

    @classmethod
    def of_this_process(cls, place: Path, spec: ChildSpec, *, idle: float, grace: float) -> StartRequest:
        return cls(str(place), idle, grace, base64.b64encode(encode(spec)).decode(), own_environ())

    @property
    def spec(self) -> ChildSpec:
        return decode(base64.b64decode(self.child), ChildSpec)

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


class KeptProcess:
    def __init__(self, child: ProcessorChild, *, idle: float, grace: float) -> None:
        self._child = child
        self._idle = idle
        self._grace = grace
        self._unanswered = ""
        """The action on which the process is at work."""
        self._memory: Any = None
        """What the last task has left for the next one."""

    def serve(self, visitor: socket.socket, door: socket.socket, *, can_be_met: Callable[[], bool]) -> None:
        """Serve one task after the other, until one ends the process or none has come for `idle` seconds. `visitor`: the first
        task. `can_be_met`: whether tasks still find this process at its place."""
        door.settimeout(_LOOK_EVERY)
        visiting: socket.socket | None = visitor
        while visiting is not None:
            with visiting:
                visiting.settimeout(None)
                if not self._serve_one(visiting):
                    return
            visiting = self._next(door, can_be_met)
        self._end_alone()

    def _next(self, door: socket.socket, can_be_met: Callable[[], bool]) -> socket.socket | None:
        """The next task; None where none comes. Once another process has begun in this one's place, none can."""
        until = monotonic() + self._idle
        while monotonic() < until and can_be_met():
            with suppress(TimeoutError):
                return door.accept()[0]
            self._child.drain()
        return None

    def _serve_one(self, visitor: socket.socket) -> bool:
        """Whether the process stays for the next task."""
        # The task may be gone by the time that an answer comes.
        with suppress(BrokenPipeError, ConnectionResetError), visitor.makefile("rwb") as lines:
            _write(lines, msgspec.json.encode({"memory": self._memory}))
            for line in lines:
                if not line.endswith(b"\n"):
                    # The task has died while it wrote.
                    break
                request = msgspec.json.decode(line)
                if "say" in request:
                    self._say(request["say"])
                elif "hear" in request:
                    # By json: an answer may have numbers that msgspec doesn't write.
                    _write(lines, json.dumps(self._heard(float(request["hear"]))).encode())
                elif "keep" in request:
                    self._memory = request["keep"]
                    return True
                else:
                    self._child.close(grace=float(request["end"]))
                    return False
        self._end_alone()
        return False

    def _say(self, message: Mapping[str, Any]) -> None:
        # The answer to a checkpoint is no action of its own: the process is still at work on the
        # one before.
        if message["action"] != "checkpoint":
            self._unanswered = message["action"]
        self._child.say(message)

    def _heard(self, within: float) -> Mapping[str, Any]:
        self._child.errors.clear()
        answer: dict[str, Any] = {}
        try:
            answer["heard"] = heard = self._child.hear(within=within)
            if heard["action"] == "status":
                self._unanswered = ""
        except ChildFailed as failed:
            answer["failed"] = str(failed)
        return {**answer, "errors": list(self._child.errors)}

    def _end_alone(self) -> None:
        """Let the process end by itself. Nobody writes its checkpoints now."""
        dialogue = Dialogue(self._child, Checkpoints.since(None), self._unanswered)
        with suppress(CallFailed):
            dialogue.stop(within=self._grace)
        self._child.close(grace=_LOOK_EVERY)


def _write(lines: Any, answer: bytes) -> None:
    lines.write(answer + b"\n")
    lines.flush()


def _keep(visitor: socket.socket) -> None:
    """Begin the process for which this task asks, and keep it until it ends. It ends with the thread that has started it."""
    # A task that goes away before it has asked for anything has left nothing.
    with visitor, suppress(OSError, ValueError):
        visitor.settimeout(_PATIENCE)
        with visitor.makefile("rb") as lines:
            request = StartRequest(**json.loads(lines.readline()))
        with log_of(Path(request.place)).open("a") as log:
            try:
                _keep_at(Path(request.place), request, visitor, partial(_note, log))
            except Exception as error:  # noqa: BLE001 - it ends this one process, and its words are in the log of its shard
                _note(log, traceback.format_exc())
                visitor.sendall(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode() + b"\n")


def _note(log: TextIO, line: str) -> None:
    # The disk may be full. That is no reason to stop a processor.
    with suppress(OSError):
        print(line, file=log, flush=True)


def _keep_at(place: Path, request: StartRequest, visitor: socket.socket, tell: Callable[[str], None]) -> None:
    with bound(place) as door:
        number = number_of(place)
        try:
            with _child(request.spec, request.environ, tell) as child:
                process = KeptProcess(child, idle=request.idle, grace=request.grace)
                process.serve(visitor, door, can_be_met=lambda: is_own(place, number))
        finally:
            # Another process may have taken the place.
            if is_own(place, number):
                place.unlink(missing_ok=True)


@contextmanager
def _child(
    spec: ChildSpec, environ: Mapping[str, str], tell: Callable[[str], None]
) -> Iterator[ProcessorChild]:
    if spec.shares_imports:
        with _importers.child(spec, environ, tell) as child:
            yield child
        return
    with folder_of(spec) as folder:
        child = start_child(spec, folder, environ, tell=tell)
        try:
            yield child
        finally:
            child.kill()


def serve(door: socket.socket, *, idle: float) -> None:
    """Keep processes until there has been none for `idle` seconds."""
    door.settimeout(_LOOK_EVERY)
    until = monotonic() + idle
    while monotonic() < until:
        try:
            visitor, _ = door.accept()
            _start_thread(visitor)
        except TimeoutError:
            # No task has asked for a process.
            pass
        except (OSError, RuntimeError):
            # As where too many files are open, or threads at work. The processes that are kept go on.
            traceback.print_exc()
            sleep(_LOOK_EVERY)
        # Each process has a thread.
        if active_count() > 1:
            until = monotonic() + idle


def _start_thread(visitor: socket.socket) -> None:
    try:
        Thread(target=_keep, args=(visitor,)).start()
    except RuntimeError:
        visitor.close()
        raise


def main(place: Path, *, idle: float) -> None:
    door = bound(place)
    number = number_of(place)
    # The task waits for this process, and comes in once it has ended; what stays is nobody's child.
    if os.fork():
        os._exit(0)
    # Each process takes several.
    open_more_files()
    try:
        serve(door, idle=idle)
    finally:
        # Before the door is closed: its number could then be that of the next keeper's name.
        if is_own(place, number):
            place.unlink(missing_ok=True)
        door.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), idle=float(sys.argv[2]))
