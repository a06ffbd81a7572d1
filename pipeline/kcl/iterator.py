"""Where KCL begins to read a shard, or goes on after its iterator or subscription was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from pipeline.errors import WrongShape

Moment = TypeVar("Moment")
"""A time in whatever form the caller has it: it is only handed on."""


@dataclass(frozen=True, slots=True)
class From(Generic[Moment]):
    """Kinesis's iterator type with what belongs to it."""

    type: str
    sequence: str | None = None
    timestamp: Moment | None = None


def plan_start(at: Checkpoint, *, restart: bool = False, configured: Moment | None = None) -> From[Moment]:
    """`at`: the row's checkpoint or, at a restart, what was delivered last.

    `configured` is today's initial timestamp: the row doesn't keep it, so a row at AT_TIMESTAMP can't be read under
    another initial position. First starts read the checkpointed record again, for the sake of user records in it.
    """
    if at.sequence == AT_TIMESTAMP.sequence:
        if configured is None:
            raise WrongShape(
                "the lease stands at AT_TIMESTAMP, but the stream has no initial timestamp: nothing is read until "
                "it is configured again"
            )
        return From("AT_TIMESTAMP", timestamp=configured)
    if at.sequence in {TRIM_HORIZON.sequence, LATEST.sequence}:
        # Also at a restart: LATEST before any record skips what came in between.
        return From(at.sequence)
    if at == SHARD_END:
        if not restart:
            raise WrongShape("the lease stands at SHARD_END: there is nothing to begin")
        return From("LATEST")
    return From("AFTER_SEQUENCE_NUMBER" if restart else "AT_SEQUENCE_NUMBER", sequence=at.sequence)
