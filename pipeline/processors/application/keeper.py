"""The keeper of a processor's process: it lives beside Spark's workers, so that an instance goes on from wave to wave.

    task of a wave ──connects──► keeper ──lines──► process of the processor
          └── what the next wave has to know ──►┘

A task that dies without a word, as Spark ends that of a cancelled run, leaves an instance of which nobody knows what it has
got. It has its grace and ends; no checkpoint is taken any more. So ends one that no task comes back to, and one whose place
another one has taken.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from headrace.pipeline.processors.application.places import bound, is_own, number_of
from headrace.pipeline.processors.checkpoints import Checkpoints
from headrace.pipeline.processors.child import ChildFailed, ProcessorChild
from headrace.pipeline.processors.dialogue import CallFailed, Dialogue
from headrace.pipeline.processors.starting import folder_of, start_child
from headrace.pipeline.processors.values import ChildSpec

_LOOK_EVERY = 0.5
"""Seconds between two looks at what the process writes to stderr while no task is there."""


class Keeper:
    def __init__(self, child: ProcessorChild, *, idle: float, grace: float) -> None:
        self._child = child
        self._idle = idle
        self._grace = grace
        self._unanswered = ""
        """The action on which the process is at work."""
        self._memory: Any = None
        """What the last task has left for the next one."""

    def serve(self, door: socket.socket, *, can_be_met: Callable[[], bool]) -> None:
        """Serve one task after the other, until one ends the process or none has come for `idle` seconds. `can_be_met`: whether
        tasks still find this keeper."""
        door.settimeout(_LOOK_EVERY)
        until = monotonic() + self._idle
        while monotonic() < until:
            try:
                visitor, _ = door.accept()
            except TimeoutError:
                self._child.drain()
                if not can_be_met():
                    # Another process has begun in this one's place, and works on the shard.
                    break
                continue
            with visitor:
                visitor.settimeout(None)
                if not self._serve_one(visitor):
                    return
            until = monotonic() + self._idle
        self._end_alone()

    def _serve_one(self, visitor: socket.socket) -> bool:
        """Whether the process stays for the next task."""
        # The task may be gone by the time that an answer comes.
        with suppress(BrokenPipeError, ConnectionResetError), visitor.makefile("rwb") as lines:
            _write(lines, {"memory": self._memory})
            for line in lines:
                request = json.loads(line)
                if "say" in request:
                    self._say(request["say"])
                elif "hear" in request:
                    _write(lines, self._heard(float(request["hear"])))
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


def _write(lines: Any, answer: Mapping[str, Any]) -> None:
    lines.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
    lines.flush()


def keep_at(place: Path, spec: ChildSpec, *, idle: float, grace: float) -> None:
    """Become the keeper of a new process, which tasks meet at this place. The process that calls this ends at once, and the
    keeper is nobody's child."""
    door = bound(place)
    number = number_of(place)
    # Who waits for this process comes in once it has ended.
    if os.fork():
        os._exit(0)
    try:
        with folder_of(spec) as folder:
            child = start_child(spec, folder)
            try:
                Keeper(child, idle=idle, grace=grace).serve(door, can_be_met=lambda: is_own(place, number))
            finally:
                child.kill()
    finally:
        door.close()
        # Another keeper may have taken the place.
        if is_own(place, number):
            place.unlink(missing_ok=True)
