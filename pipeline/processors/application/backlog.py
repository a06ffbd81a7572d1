"""The records that a processor's process has got and hasn't checkpointed yet, and the position that follows from
them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.processors.values import Delivered

_MOST_BYTES = 8 << 20
"""Payload bytes of one call."""


@dataclass(slots=True)
class Backlog:
    records: list[Delivered] = field(default_factory=list)
    """Delivered records that aren't checkpointed, in order."""
    last: Delivered | None = None
    """The last record that was delivered."""
    reached: Delivered | None = None
    """The last record that was checkpointed in this delivery."""
    without_payload: int = 0
    """How many of the records, from the first one on, an earlier wave has delivered: their payloads are gone."""

    def add(self, call: Sequence[Delivered]) -> None:
        self.records += call
        self.last = call[-1]

    def note(self, checkpoint: Checkpoint) -> None:
        """Note that the lease row has this checkpoint, so that the records up to it are done."""
        if not checkpoint.is_digits:
            return
        place = int(checkpoint.sequence), checkpoint.sub
        count = bisect_right(self.records, place, key=lambda record: record.place)
        if count:
            self.reached = self.records[count - 1]
            self.without_payload = max(0, self.without_payload - count)
            del self.records[:count]

    def begins_inside(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is within a Kinesis record of which the process has got the remaining user records."""
        return (
            checkpoint.is_digits
            and bool(self.records)
            and self.records[0].sequence == int(checkpoint.sequence)
        )

    def position(self, checkpoint: Checkpoint, *, after: Position, read: Position) -> Position:
        """The checkpoint as a position, with the time up to which nothing can be lost unseen. `after`: where the delivery
        began. `read`: how far the shard was read."""
        # Only a look after which nothing was left to checkpoint tells anything of the time after the checkpoint.
        seen = read.seen if not self.records and not read.ended else None
        if self.reached is None or not checkpoint.is_digits:
            if self.records and after.witness is None:
                # The next look has to begin before the records that are delivered and not checkpointed.
                seen = arrival_of(self.records[0]) - timedelta(milliseconds=1)
            return replace(after, seen=seen or after.seen)
        arrival = arrival_of(self.reached)
        return Position(int(checkpoint.sequence), checkpoint.sub, arrival=arrival, seen=seen, inside=True)

    def stopped_at(self) -> str:
        """A sentence that says at which record, or between which records, the processor failed, as far as that is known."""
        if not self.records:
            return "the processor has stopped at its checkpoint"
        first, last = self.records[0], self.records[-1]
        if first == last:
            return f"the processor has stopped at its checkpoint, at the record {first.sequence}/{first.sub}"
        return f"the processor has stopped at its checkpoint, at one of the records {first.sequence}/{first.sub} to {last.sequence}/{last.sub}"


def calls_of(records: Sequence[Delivered], *, most: int) -> Iterator[list[Delivered]]:
    """The records, divided into calls of at most `most` records, and of at most the bytes that one message takes."""
    call: list[Delivered] = []
    size = 0
    for record in records:
        if call and (len(call) >= most or size + len(record.data) > _MOST_BYTES):
            yield call
            call, size = [], 0
        call.append(record)
        size += len(record.data)
    if call:
        yield call


def arrival_of(record: Delivered) -> datetime:
    return datetime.fromtimestamp(record.arrival_ms / 1000, UTC)
