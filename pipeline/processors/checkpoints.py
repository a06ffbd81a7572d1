"""The answers to the checkpoint requests of a processor, by KCL's rules and with KCL's names of errors. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl.checkpointer import (
    CheckpointProgress,
    OutOfBounds,
    Write,
    delivered,
    plan_checkpoint,
    shard_ended,
    written,
)

_WITHOUT_CHECKPOINTER = frozenset({"initialize", "leaseLost"})
"""Actions in which KCL has no checkpointer."""
OUT_OF_RANGE, _NOT_NOW = "IllegalArgumentException", "InvalidStateException"


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints that one process of a processor has made."""

    progress: CheckpointProgress

    @classmethod
    def since(cls, position: tuple[int, int] | None) -> Checkpoints:
        """The checkpoints of a process that begins after the record at this position, and has made none yet."""
        last = TRIM_HORIZON if position is None else Checkpoint(str(position[0]), position[1])
        return cls(CheckpointProgress(last=last, largest=None if position is None else last))

    @property
    def place(self) -> tuple[int, int] | None:
        """The record up to which everything is checkpointed; None before the first one, and at the shard's end."""
        last = self.progress.last
        return (int(last.sequence), last.sub) if last is not None and last.is_digits else None

    @property
    def has_ended(self) -> bool:
        return self.progress.last is not None and self.progress.last.is_end

    def deliver(self, place: tuple[int, int]) -> None:
        self.progress = delivered(self.progress, Checkpoint(str(place[0]), place[1]))

    def end(self) -> None:
        """Note that the shard has no more records, so that the processor may checkpoint its end."""
        self.progress = shard_ended(self.progress)

    def answer(self, message: Mapping[str, Any], *, action: str) -> Mapping[str, Any]:
        """The answer to a checkpoint request that comes during the call `action`."""
        return _answer(message, _NOT_NOW if action in _WITHOUT_CHECKPOINTER else self.take(message))

    def take(self, message: Mapping[str, Any]) -> str | None:
        """Accept or refuse a checkpoint request. Returns the name of the error; None where the checkpoint is
        accepted.
        """
        if message.get("prepare"):
            # Nothing keeps a prepared checkpoint until the wave's commit.
            return _NOT_NOW
        try:
            requested = requested_by(message)
        except ValueError:
            return OUT_OF_RANGE
        # `mended`: a processor that had checkpointed the last record can still end the shard.
        planned = plan_checkpoint(self.progress, requested, mended=True)
        if isinstance(planned, OutOfBounds):
            return OUT_OF_RANGE
        if isinstance(planned, Write):
            if (error := self.write(planned)) is not None:
                return error
            self.progress = written(self.progress, planned)
        return None

    def write(self, planned: Write) -> str | None:
        """Store the checkpoint. Returns KCL's name of the error where that failed. Here it can't fail, because
        the wave's commit stores checkpoints.
        """
        return None


def refusal(message: Mapping[str, Any], *, action: str) -> Mapping[str, Any]:
    """The answer that refuses a checkpoint request, because the checkpoint wouldn't be stored."""
    return _answer(message, _NOT_NOW if action in _WITHOUT_CHECKPOINTER else "ShutdownException")


def _answer(message: Mapping[str, Any], error: str | None) -> Mapping[str, Any]:
    """`error`: KCL's own name of the error, which the user's code may already know how to handle; None where there is none."""
    # The types are those of KCL's daemon, whichever the program has written.
    number = message.get("sequenceNumber")
    return {
        "action": "checkpoint",
        "sequenceNumber": None if number is None else str(number),
        "subSequenceNumber": _as_number(message.get("subSequenceNumber")),
        "error": error,
    }


def _as_number(sub: Any) -> Any:
    try:
        return int(sub)
    except (ValueError, TypeError):
        return sub


def requested_by(message: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint that a message asks for; None where it asks for the last record that was delivered. Raises
    ValueError.
    """
    number, sub = message.get("sequenceNumber"), message.get("subSequenceNumber")
    if number is None:
        return None
    try:
        requested = Checkpoint(str(number), 0 if sub is None else int(sub))
    except (WrongShape, TypeError) as error:
        raise ValueError(str(error)) from error
    if not (requested.is_digits or requested.is_end):
        raise ValueError(f"{number!r} is no sequence number")
    return requested
