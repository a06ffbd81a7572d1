"""What a wave remembers about a processor's process for the next wave: how far the process has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.processors.values import Delivered


@dataclass(frozen=True, slots=True)
class Memory:
    code: str
    """Tells the code with which the process was started."""
    epoch: int
    """That of the stream. One that was deleted and made anew has the same shard ids, and maybe the same checkpoint."""
    checkpoint: Checkpoint
    """The one in the row. Where the row has another one, somebody else has worked on the shard since."""
    last: Delivered
    """The last record that was delivered, without its payload, as those in `since`."""
    since: tuple[Delivered, ...]
    """The delivered records that aren't checkpointed."""
    iterator: str | None = None
    """A shard iterator just after the last record, which saves the next wave a request. It may have expired."""

    def plain(self) -> dict[str, Any]:
        """The memory as plain values for JSON."""
        return {
            "code": self.code,
            "epoch": self.epoch,
            "checkpoint": [self.checkpoint.sequence, self.checkpoint.sub],
            "last": _plain(self.last),
            "since": [_plain(record) for record in self.since],
            "iterator": self.iterator,
        }


def read_memory(plain: Mapping[str, Any]) -> Memory:
    return Memory(
        plain["code"],
        # A process that a former version of Headrace has left doesn't tell it, and isn't gone on with.
        plain.get("epoch", -1),
        Checkpoint(*plain["checkpoint"]),
        _record(plain["last"]),
        tuple(_record(record) for record in plain["since"]),
        plain.get("iterator"),
    )


def _plain(record: Delivered) -> list[Any]:
    # As a text: JSON's numbers are too short for sequence numbers elsewhere.
    return [str(record.sequence), record.sub, record.arrival_ms]


def _record(plain: list[Any]) -> Delivered:
    sequence, sub, arrival_ms = plain
    return Delivered(int(sequence), sub, arrival_ms, "", b"")
