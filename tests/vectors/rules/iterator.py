"""Where KCL begins to read a shard, and where it goes on after an iterator expired or a subscription ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.errors import WrongShape

Moment = TypeVar("Moment")
"""The caller's type for a time; this module only passes it on."""


@dataclass(frozen=True, slots=True)
class IteratorStart(Generic[Moment]):
    """The arguments of GetShardIterator: the type, and the sequence number or the timestamp that the type needs."""

    type: str
    sequence: str | None = None
    timestamp: Moment | None = None


def plan_start(
    checkpoint: Checkpoint, *, restart: bool = False, configured: Moment | None = None
) -> IteratorStart[Moment]:
    """The iterator to ask for. `checkpoint`: the checkpoint in the row or, at a restart, the last record that
    was delivered.

    `configured` is the initial timestamp of today's configuration. The row doesn't hold a timestamp, so a row at
    AT_TIMESTAMP can't be read once another initial position is configured.
    """
    if checkpoint.sequence == AT_TIMESTAMP.sequence:
        if configured is None:
            raise WrongShape(
                "the checkpoint of the lease is AT_TIMESTAMP, but no initial timestamp is configured for "
                "the stream: the shard isn't read until one is configured again"
            )
        return IteratorStart("AT_TIMESTAMP", timestamp=configured)
    if checkpoint.sequence in {TRIM_HORIZON.sequence, LATEST.sequence}:
        # As in KCL, at a restart too. A reader that restarts at LATEST before its first record skips all records that
        # arrived in between.
        return IteratorStart(checkpoint.sequence)
    if checkpoint == SHARD_END:
        if not restart:
            raise WrongShape("the checkpoint of the lease is SHARD_END: the shard has been read to its end")
        return IteratorStart("LATEST")
    # A first start reads the checkpointed record again: user records in it may come after the checkpoint.
    return IteratorStart(
        "AFTER_SEQUENCE_NUMBER" if restart else "AT_SEQUENCE_NUMBER", sequence=checkpoint.sequence
    )
