"""Checkpoints that are stored before the processor gets its answer: each is a write on the lease row, on
condition that the run still has its claim.

    the write                                            the processor hears
    made                                                 nothing wrong
    refused, because another process has the row         ShutdownException; the lease counts as lost from then on
    refused, and the row still has the run's claim       nothing yet: the write is planned anew for the row as it is
    too many requests                                    ThrottlingException
    no table                                             InvalidStateException
    any other trouble of DynamoDB                        KinesisClientLibDependencyException

A row with the run's claim has moved on where the answer of an earlier write was lost, or where Spark has begun
the task once more. It never moves back: a checkpoint before the row's is one that the row has already.

SHARD_END isn't written here. The rows of the children come first, and the run makes them after the wave.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.errors import HeadraceError, TablesMissing, Throttled
from headrace.pipeline.kcl.checkpointer import CheckpointProgress, OutOfBounds, Write, plan_prepare
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.processors.checkpoints import OUT_OF_RANGE, Checkpoints, requested_by

LOST = "ShutdownException"
_TROUBLE = "KinesisClientLibDependencyException"
_TRIES = 3
"""Writes of one checkpoint, each by the row as the one before has found it."""


@dataclass(slots=True)
class ClaimedRow:
    """The lease row of one shard, into which a task writes checkpoints."""

    rows: LeaseStore
    lease: Lease
    """As it was last read or written."""
    me: str
    """The worker that holds the lease."""
    is_lost: bool = False
    """Whether another process has the row."""
    may_have_moved: bool = False
    """Whether the newest write had no answer, so that the row may be further than `lease`."""
    unread_since: datetime | None = None
    """When the first record arrived that the processor has got and hasn't checkpointed; None where nothing tells."""

    @property
    def claim(self) -> str:
        return self.lease.run_claim or ""

    def look(self) -> bool:
        """Read the row, and return whether the shard may be read on: no other run has taken the row, and none
        waits for it.
        """
        row = self.rows.get(self.lease.key)
        self._go_by(row)
        if row is None or self.is_lost:
            return False
        return row.checkpoint_owner is None and row.wanted_by in {None, self.lease.run_claim}

    def _go_by(self, row: Lease | None) -> None:
        """`row`: the row as it was found."""
        self.may_have_moved = False
        # Holder and claim, not the counter: the run's beats count up the same row beside the task.
        if row is None or (row.holder, row.run_claim) != (self.me, self.lease.run_claim):
            self.is_lost = True
        else:
            self.lease = row

    def checkpoint(self, upto: Checkpoint) -> str | None:
        # Behind until the run's release says more: the checkpoint may be inside of an aggregate, whose rest no probe finds, and
        # the run may die. How far behind is told by the time of the look, so that both are written together.
        return self._write(
            upto,
            lambda row: change.checkpoint(
                row, self.me, self.claim, upto=upto, looked_at=self._looked_at(row), behind_ms=1
            ),
        )

    def _looked_at(self, row: Lease) -> datetime | None:
        """Up to when nothing that has arrived is unread."""
        return max((time for time in (row.looked_at, self.unread_since) if time is not None), default=None)

    def prepare(self, upto: Checkpoint, state: bytes | None) -> str | None:
        return self._write(
            upto, lambda row: change.prepare_checkpoint(row, self.me, self.claim, upto=upto, state=state)
        )

    def _write(self, upto: Checkpoint, proposed: Callable[[Lease], Change]) -> str | None:
        """KCL's name of the error; None where the row was written, or is further already."""
        for _ in range(_TRIES):
            if self.is_lost:
                return LOST
            if upto < self.lease.checkpoint:
                return None
            try:
                outcome = self.rows.apply(proposed(self.lease))
            except Throttled:
                # The last try was refused. An earlier one may have been made without an answer.
                self.may_have_moved = True
                return "ThrottlingException"
            except TablesMissing:
                return "InvalidStateException"
            # Never an error of the task: a processor may go on after a failed checkpoint, as with
            # KCL, and try again.
            except HeadraceError:
                self.may_have_moved = True
                return _TROUBLE
            if isinstance(outcome, Applied):
                self.may_have_moved = False
                self.lease = outcome.lease
                return None
            self._go_by(outcome.row)
        return LOST if self.is_lost else _TROUBLE


@dataclass(slots=True, kw_only=True)
class RowCheckpoints(Checkpoints):
    row: ClaimedRow

    @classmethod
    def of(cls, row: ClaimedRow) -> RowCheckpoints:
        last = row.lease.checkpoint
        return cls(CheckpointProgress(last=last, largest=last if last.is_digits else None), row=row)

    def write(self, planned: Write) -> str | None:
        if self.row.is_lost:
            return LOST
        return None if planned.checkpoint.is_end else self.row.checkpoint(planned.checkpoint)

    def answer(self, message: Mapping[str, Any], *, action: str) -> Mapping[str, Any]:
        prepared = self._prepared_by(message) if message.get("prepare") else None
        if prepared is not None:
            # The second step has to be at this record, whatever is delivered until then.
            message = {**message, "sequenceNumber": prepared.sequence, "subSequenceNumber": prepared.sub}
        # Not super(): a dataclass with slots is made anew, and the old class is what super() would look for.
        return Checkpoints.answer(self, message, action=action)

    def take(self, message: Mapping[str, Any]) -> str | None:
        return self._prepare(message) if message.get("prepare") else Checkpoints.take(self, message)

    def _prepared_by(self, message: Mapping[str, Any]) -> Checkpoint | None:
        """The checkpoint that a message prepares; None where that can't be told."""
        largest = self.progress.largest
        try:
            requested = requested_by(message)
        except ValueError:
            return None
        if requested is not None or largest is None or message.get("applicationState") is None:
            return requested or largest
        # As in KCL: with a state, the first user record of the last Kinesis record is prepared.
        return Checkpoint(largest.sequence)

    def _prepare(self, message: Mapping[str, Any]) -> str | None:
        text = message.get("applicationState")
        try:
            requested = requested_by(message)
            state = None if text is None else base64.b64decode(text, validate=True)
        except (ValueError, TypeError):
            return OUT_OF_RANGE
        planned = plan_prepare(self.progress, requested)
        if isinstance(planned, OutOfBounds):
            return OUT_OF_RANGE
        return self.row.prepare(planned.checkpoint, state) if isinstance(planned, Write) else None
