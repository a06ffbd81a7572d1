"""The process of a host from which keepers are forked (`headrace.pipeline.processors.application.keeper`). A keeper that starts as
a Python of its own has 11 MiB for itself; one that is forked shares most of them with the others.

    task ──ForkRequest──► nursery ──forks──► keeper, met by tasks at its own place

    python -m headrace.pipeline.processors.application.nursery SOCKET IDLE
"""

from __future__ import annotations

import base64
import gc
import json
import os
import socket
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.processors.application.keeper import keep_at
from headrace.pipeline.processors.application.places import bound, is_own, number_of
from headrace.pipeline.processors.values import ChildSpec

_PATIENCE = 10.0
"""Seconds within which a task has sent its whole request."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """What a task asks for. Its environment and its paths become those of the keeper, and of the processor's process."""

    place: str
    log: str
    """The file for what the keeper and the processor's process write to stderr."""
    idle: float
    grace: float
    child: str
    """The ChildSpec."""
    environ: dict[str, str]
    paths: list[str]

    @classmethod
    def of_this_process(
        cls, place: Path, log: Path, spec: ChildSpec, *, idle: float, grace: float
    ) -> ForkRequest:
        child = base64.b64encode(encode(spec)).decode()
        return cls(str(place), str(log), idle, grace, child, dict(os.environ), [p for p in sys.path if p])

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def serve(door: socket.socket, *, idle: float) -> None:
    """Fork keepers until no task has asked for one for `idle` seconds."""
    # What is there by now is never collected, so that no collection copies its pages.
    gc.collect()
    gc.freeze()
    door.settimeout(idle)
    while True:
        try:
            visitor, _ = door.accept()
        except TimeoutError:
            return
        with visitor:
            visitor.settimeout(_PATIENCE)
            try:
                with visitor.makefile("rb") as lines:
                    request = ForkRequest(**json.loads(lines.readline()))
                visitor.sendall(json.dumps({"failed": _forked(request, door, visitor)}).encode() + b"\n")
            except (OSError, ValueError):
                # The task is gone.
                continue


def _forked(request: ForkRequest, *inherited: socket.socket) -> int:
    """The exit code of the process that has become the keeper's parent: 0 once tasks can meet the keeper."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    # From here on this is the keeper, which never goes back into the loop of the nursery.
    try:
        for door in inherited:
            door.close()
        _become(request)
        keep_at(
            Path(request.place),
            decode(base64.b64decode(request.child), ChildSpec),
            idle=request.idle,
            grace=request.grace,
        )
    except BaseException:  # noqa: BLE001 - whatever it is, it ends this process, and its words are in the log
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _become(request: ForkRequest) -> None:
    os.setsid()
    log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(request.environ)
    sys.path[:] = request.paths


def main(place: Path, *, idle: float) -> None:
    door = bound(place)
    number = number_of(place)
    # The task waits for this process, and comes in once it has ended; what stays is nobody's child.
    if os.fork():
        os._exit(0)
    try:
        serve(door, idle=idle)
    finally:
        door.close()
        if is_own(place, number):
            place.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), idle=float(sys.argv[2]))
