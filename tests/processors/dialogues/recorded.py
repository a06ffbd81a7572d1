"""Dialogues between a host and processes of `noting.py`, and those with KCL's MultiLangDaemon, which are kept in a file.

`make interop ARGS="--keep-rows dialogue"` renews the file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.pipeline.processors.values import Delivered

KCL = "3.5.1"
KEPT = Path(__file__).parent / f"multilang-{KCL}.txt"
PROGRAM = Path(__file__).parent / "noting.py"
FROM_HOST, FROM_PROCESS = "> ", "< "
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedDialogue:
    """What one process and its host have said to each other, in order."""

    lines: tuple[str, ...]
    """Each begins with the mark of who said it."""

    def __str__(self) -> str:
        begin = self.messages("initialize")[0]
        return f"{begin['shardId']} from {begin['sequenceNumber'][-6:]}"

    def messages(self, action: str = "") -> list[Message]:
        """What the host said, or of that the messages with this action."""
        messages: list[Message] = [
            json.loads(line.removeprefix(FROM_HOST)) for line in self.lines if line.startswith(FROM_HOST)
        ]
        return [message for message in messages if action in {"", message["action"]}]

    @property
    def actions(self) -> list[str]:
        return [message["action"] for message in self.messages() if message["action"] != "checkpoint"]

    @property
    def errors(self) -> list[str | None]:
        return [message["error"] for message in self.messages("checkpoint")]

    @property
    def is_complete(self) -> bool:
        """Whether the process has answered the last action of a processor's life."""
        return self.actions[-1:] in (["leaseLost"], ["shardEnded"]) and '"status"' in self.lines[-1]


def records_of(message: Message) -> list[Delivered]:
    """The records of a processRecords."""
    return [
        Delivered(
            int(record["sequenceNumber"]),
            record["subSequenceNumber"],
            record["approximateArrivalTimestamp"],
            record["partitionKey"],
            base64.b64decode(record["data"]),
        )
        for record in message["records"]
    ]


def noted(folder: Path) -> list[RecordedDialogue]:
    """The dialogues of the processes that had this folder, in the order in which they began."""
    files = sorted(folder.glob("*.lines"))
    return [RecordedDialogue(tuple(_lines(file.read_bytes()))) for file in files]


def kept() -> list[RecordedDialogue]:
    parts = KEPT.read_bytes().split(b"\n\n")
    return [RecordedDialogue(tuple(_lines(part))) for part in parts]


def keep(dialogues: Iterable[RecordedDialogue]) -> None:
    KEPT.write_text("\n\n".join("\n".join(dialogue.lines) for dialogue in dialogues) + "\n", newline="\n")


def _lines(text: bytes) -> Iterator[str]:
    # Not splitlines(): a partition key may have characters that it takes for the end of a line.
    return (line for line in text.decode().split("\n") if line)
