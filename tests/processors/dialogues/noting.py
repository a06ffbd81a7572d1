"""A record processor that writes down its dialogue: each line that it gets, and each line that it answers.

    python noting.py FOLDER

It needs nothing but Python, so KCL's MultiLangDaemon runs it as Headrace does. What it says follows from what it gets alone: the data of a
record names the checkpoint that it asks for.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

_FREE_TEXT = "a line that is no message"
WAITING, GO_ON = "waiting", "go-on"
"""Files of the folder: the first says that a record has let the program wait, and the second lets it go on."""

Message = Mapping[str, Any]


def checkpoint(number: Any = None, sub: Any = None) -> Message:
    return {"action": "checkpoint", "sequenceNumber": number, "subSequenceNumber": sub}


_CHECKPOINTS: Mapping[bytes, Callable[[str, int], Message]] = {
    b"no number": lambda number, sub: checkpoint(),
    b"wait": lambda number, sub: checkpoint(),
    b"no members": lambda number, sub: {"action": "checkpoint"},
    b"number": lambda number, sub: checkpoint(number),
    b"both numbers": checkpoint,
    b"numbers of other types": lambda number, sub: checkpoint(int(number), str(sub)),
    b"too early": lambda number, sub: checkpoint("1"),
    b"too late": lambda number, sub: checkpoint(str(2 * int(number))),
    b"no such user record": lambda number, sub: checkpoint(number, 1000),
    b"no digits": lambda number, sub: checkpoint("abc"),
}
"""The data of a record -> the checkpoint that follows it, by the record's numbers."""


class Noting:
    def __init__(self, folder: Path, given: BinaryIO, told: BinaryIO) -> None:
        self.folder = folder
        self.given = given
        self.told = told
        self.last = checkpoint()
        """The last checkpoint with a number that was taken."""
        # Sorted by name, the files have the order in which the processes began.
        self.file = (folder / f"{time.time_ns()}-{os.getpid()}.lines").open("wb")

    def run(self) -> None:
        while (message := self.hear()) is not None:
            action = message["action"]
            if action == "initialize":
                self.say(_FREE_TEXT)
            # In `initialize` and `leaseLost` the host has to refuse it.
            if action in {"initialize", "leaseLost"}:
                self.ask(checkpoint())
            if action == "shutdownRequested":
                self.ask(self.last)
            if action == "shardEnded":
                self.ask(checkpoint("1"))
                self.ask(checkpoint())
            for record in message.get("records", ()):
                self.work(record)
            self.say(json.dumps({"action": "status", "responseFor": action}))

    def work(self, record: Message) -> None:
        data = base64.b64decode(record["data"])
        if data == b"wait":
            (self.folder / WAITING).touch()
            while not (self.folder / GO_ON).exists():
                time.sleep(0.02)
        if data in _CHECKPOINTS:
            self.ask(_CHECKPOINTS[data](record["sequenceNumber"], record["subSequenceNumber"]))

    def ask(self, message: Message) -> None:
        self.say(json.dumps(message))
        answer = self.hear()
        if answer and answer["sequenceNumber"] and answer["error"] is None:
            self.last = checkpoint(answer["sequenceNumber"], answer["subSequenceNumber"])

    def hear(self) -> Message | None:
        line = self.given.readline()
        if not line:
            return None
        self.note(b"> ", line)
        message: Message = json.loads(line)
        return message

    def say(self, text: str) -> None:
        line = text.encode() + b"\n"
        # First the note: whoever hears the answer finds it there.
        self.note(b"< ", line)
        self.told.write(line)
        self.told.flush()

    def note(self, mark: bytes, line: bytes) -> None:
        self.file.write(mark + line)
        self.file.flush()


if __name__ == "__main__":
    Noting(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer).run()
