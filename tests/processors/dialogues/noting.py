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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

_FREE_TEXT = "a line that is no message"
WAITING, GO_ON = "waiting", "go-on"
"""Files of the folder: the first says that a record has let the program wait, and the second lets it go on."""

Message = Mapping[str, Any]


def checkpoint(number: Any = None, sub: Any = None) -> Message:
    return {"action": "checkpoint", "sequenceNumber": number, "subSequenceNumber": sub}


def asked_for(record: Message, folder: Path) -> Message | None:
    """The checkpoint that follows a record."""
    number, sub = record["sequenceNumber"], record["subSequenceNumber"]
    match base64.b64decode(record["data"]):
        case b"no number" | b"wait" as word:
            if word == b"wait":
                (folder / WAITING).touch()
                while not (folder / GO_ON).exists():
                    time.sleep(0.02)
            return checkpoint()
        case b"number":
            return checkpoint(number)
        case b"both numbers":
            return checkpoint(number, sub)
        case b"numbers of other types":
            return checkpoint(int(number), str(sub))
        case b"no members":
            return {"action": "checkpoint"}
        case b"too early":
            return checkpoint("1")
        case b"too late":
            return checkpoint(str(2 * int(number)))
        case b"no such user record":
            return checkpoint(number, 1000)
        case b"no digits":
            return checkpoint("abc")
    return None


class Noting:
    def __init__(self, folder: Path, given: BinaryIO, told: BinaryIO) -> None:
        self.folder = folder
        self.given = given
        self.told = told
        # Sorted by name, the files have the order in which the processes began.
        self.file = (folder / f"{time.time_ns()}-{os.getpid()}.lines").open("wb")

    def run(self) -> None:
        while (message := self.hear()) is not None:
            action = message["action"]
            if action == "initialize":
                self.say(_FREE_TEXT)
            # In `initialize` and `leaseLost` the host has to refuse it.
            if action in {"initialize", "leaseLost", "shutdownRequested"}:
                self.ask(checkpoint())
            if action == "shardEnded":
                self.ask(checkpoint("1"))
                self.ask(checkpoint())
            for record in message.get("records", ()):
                if asked := asked_for(record, self.folder):
                    self.ask(asked)
            self.say(json.dumps({"action": "status", "responseFor": action}))

    def ask(self, message: Message) -> None:
        self.say(json.dumps(message))
        self.hear()

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
