"""A delivery: the records of one shard to one process of a processor, as they are read.

    initialize ─► processRecords ... ─► shutdownRequested ─► leaseLost       the shard goes on
         ▲             │             ├► shardEnded                           the shard has ended
         │             │             └► leaseLost                            another process has the lease
         └── retry: a new process, at the checkpoint in the row, with the records since then

Only the processor moves the checkpoint in the row. However a delivery ends, the next one begins at that checkpoint.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from headrace.pipeline.core.ledger.batch import Batch, Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.processors.application.backlog import Backlog, arrival_of, calls_of
from headrace.pipeline.processors.application.kept import KeptLines
from headrace.pipeline.processors.application.memory import Memory, read_memory
from headrace.pipeline.processors.application.row_checkpoints import ClaimedRow, RowCheckpoints
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.dialogue import CallFailed, Dialogue, Lines
from headrace.pipeline.processors.values import Delivered, TurnRules
from headrace.pipeline.settings.choices import OnProcessorError

_ENDINGS = 2
"""How often a processor is asked to checkpoint the shard's end."""


@dataclass(slots=True, kw_only=True)
class Delivery:
    batch: Batch
    row: ClaimedRow
    rules: TurnRules
    start: Callable[[], AbstractContextManager[Lines]]
    """Starts a process of the processor."""
    pause: Callable[[float], None]
    meet: Callable[[], AbstractContextManager[KeptLines | None]] = nullcontext
    """Finds the process that an earlier wave has kept."""
    code: str = ""
    """Tells the processor's code from another one."""
    behind: timedelta | None = None
    """How far behind the tip the page is whose records come."""
    trouble: str = ""
    """Why the processor has stopped; empty while it works."""
    count: int = 0
    """How many user records the processor has got."""
    _backlog: Backlog = field(default_factory=Backlog)
    _begins_anew: bool = False
    """Whether the process has failed, and the next wave begins at the row with a new one."""
    _process: ExitStack = field(default_factory=ExitStack)
    _dialogue: Dialogue | None = None
    _failed: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the processor gets no more records."""
        return bool(self.trouble) or self.row.is_lost or self._begins_anew

    @property
    def is_complete(self) -> bool:
        """Whether everything that was delivered is checkpointed."""
        return not self._backlog.records

    @property
    def has_rest(self) -> bool:
        """Whether the checkpoint is within a Kinesis record of which the processor has got the remaining user
        records.
        """
        return self._backlog.begins_inside(self.row.lease.checkpoint)

    def begin(self) -> Batch:
        """Begin with the process that an earlier wave has kept, else with a new one at the checkpoint in the row.
        Returns the batch to read.
        """
        planned_at = self.row.lease.checkpoint
        if (resumed := self.resume()) is not None:
            return resumed
        self._look()
        last, after = self.row.lease.checkpoint, self.batch.after
        if last == planned_at or not last.is_digits:
            return self.batch
        # Spark has begun the task once more, or the answer of a write was lost.
        moved = Position(
            int(last.sequence), last.sub, seen=None if after is None else after.seen, inside=True
        )
        return replace(self.batch, after=moved, iterator=None, parents=())

    def _look(self) -> None:
        # Where the row can't be read now, the condition of the next checkpoint tells.
        with suppress(HeadraceError):
            self.row.look()

    def resume(self) -> Batch | None:
        """Go on with the process that an earlier wave has kept. Returns the batch that is left to read for the
        process; None where there is no such process, or where it doesn't know what has become of its shard since.
        """
        lines = self._process.enter_context(self.meet())
        if lines is None or lines.memory is None:
            self._process.close()
            return None
        memory = read_memory(lines.memory)
        # Read only here: where the row that the run has handed over fits the process, it goes on without a request. A claim that
        # was lost meanwhile is told by the next checkpoint's condition, and until then records are repeated at most.
        if memory.checkpoint != self.row.lease.checkpoint:
            self._look()
        checkpoints = RowCheckpoints.of(self.row)
        dialogue = Dialogue(lines, checkpoints)
        own = (self.code, self.batch.key.stream.epoch, self.row.lease.checkpoint)
        if (memory.code, memory.epoch, memory.checkpoint) != own:
            with suppress(CallFailed):
                dialogue.call("leaseLost", within=self.rules.grace)
            self._process.close()
            return None
        checkpoints.deliver(memory.last.place)
        self._dialogue = dialogue
        self._backlog = Backlog(list(memory.since), memory.last, without_payload=len(memory.since))
        self._note_unread()
        arrival = arrival_of(memory.last)
        after = Position(memory.last.sequence, memory.last.sub, arrival=arrival, inside=True)
        return replace(
            self.batch,
            after=after,
            witness=max(self.batch.witness, arrival),
            iterator=memory.iterator,
            parents=(),
        )

    def take(self, records: Sequence[Delivered]) -> None:
        """Deliver these records. Records that come after a failure are left to the next delivery."""
        for call in calls_of(records, most=self.rules.records):
            if self.is_over:
                return
            self._backlog.add(call)
            self._note_unread()
            self.count += len(call)
            self._attempt(partial(self._hand_out, call))

    def end(self, *, has_ended: bool, keeps: Staged | None = None) -> bool:
        """Let the process end. `has_ended`: whether the shard has no more records. `keeps`: how far the shard was read, where the
        process is to stay for the next wave. Returns whether the processor has checkpointed the shard's end."""
        try:
            if self.trouble or self._begins_anew:
                return False
            if keeps is not None and not (has_ended or self.row.is_lost) and self._keep(keeps):
                return False
            if has_ended and not self.row.is_lost:
                self._attempt(self._end_shard, is_end=True)
                return not self.is_over and self._checkpoints.has_ended
            if self._dialogue is not None:
                self._end_process(self._dialogue)
            return False
        finally:
            self._process.close()

    def _keep(self, read: Staged) -> bool:
        """Leave the process to the next wave. Whether it could be left. `read`: how far the shard was read."""
        lines = None if self._dialogue is None else self._dialogue.child
        last = self._backlog.last
        if not isinstance(lines, KeptLines) or last is None:
            return False
        is_at_last = (read.upto.sequence, read.upto.sub) == last.place
        memory = Memory(
            self.code,
            self.batch.key.stream.epoch,
            self.row.lease.checkpoint,
            last,
            tuple(self._backlog.records),
            read.iterator if is_at_last else None,
        )
        try:
            lines.keep(memory.plain())
        except ChildFailed:
            return False
        return True

    def interrupt(self) -> None:
        """Stop, because the task has to stop: the processor gets some seconds to end, in which it may checkpoint."""
        if self._dialogue is not None:
            with suppress(CallFailed):
                self._dialogue.stop(within=self.rules.grace, takes_checkpoints=True)
            self._note_checkpoint()
        self._process.close()

    def staged(self, read: Staged, *, ended: bool) -> Staged:
        """The result of the shard's reading, in the form that the engine knows. `read`: how far the shard was read."""
        checkpoint, after = self.row.lease.checkpoint, self.batch.after or Position()
        return replace(
            read,
            after=self.batch.after,
            upto=read.upto if ended else self._backlog.position(checkpoint, after=after, read=read.upto),
            rows=self.count,
            iterator=None,
            error=self.trouble or read.error,
        )

    # --- calls ------------------------------------------------------------------------------------------------------

    @property
    def _checkpoints(self) -> RowCheckpoints:
        checkpoints = self._open().checkpoints
        if not isinstance(checkpoints, RowCheckpoints):
            raise TypeError("a delivery's checkpoints are those of a lease row")
        return checkpoints

    def _open(self) -> Dialogue:
        """The dialogue with the process, which is started and initialized at the first call."""
        if self._dialogue is None:
            checkpoints = RowCheckpoints.of(self.row)
            try:
                lines = self._process.enter_context(self.start())
            except (ChildFailed, OSError) as failed:
                raise CallFailed(f"the processor's process couldn't be started: {failed}") from failed
            dialogue = Dialogue(lines, checkpoints)
            dialogue.call("initialize", within=self.rules.timeout, **self._beginning())
            self._dialogue = dialogue
        return self._dialogue

    def _beginning(self) -> dict[str, Any]:
        lease = self.row.lease
        members: dict[str, Any] = {
            "shardId": lease.shard_id,
            "sequenceNumber": lease.checkpoint.sequence,
            "subSequenceNumber": lease.checkpoint.sub,
        }
        if lease.pending is not None:
            state = lease.pending_state
            members["pendingCheckpoint"] = {
                "sequenceNumber": lease.pending.sequence,
                "subSequenceNumber": lease.pending.sub,
                "applicationState": None if state is None else base64.b64encode(state).decode(),
            }
        return members

    def _hand_out(self, records: Sequence[Delivered]) -> None:
        behind_ms = None if self.behind is None else self.behind // timedelta(milliseconds=1)
        status = self._open().process_records(records, within=self.rules.timeout, behind_ms=behind_ms)
        self._note_checkpoint()
        if status.get("rows"):
            raise CallFailed(
                "the processor gave rows, and one of mode application has no table; let it write them elsewhere, or use "
                "mode: landed"
            )

    def _end_shard(self) -> None:
        dialogue = self._open()
        dialogue.checkpoints.end()
        for _ in range(_ENDINGS):
            dialogue.call("shardEnded", within=self.rules.timeout)
            self._note_checkpoint()
            if self._checkpoints.has_ended or self.row.is_lost:
                return
        raise CallFailed(
            f"the shard has ended, and the processor hasn't checkpointed that in shard_ended, although it was asked "
            f"{_ENDINGS} times. The shard's children wait for it"
        )

    def _end_process(self, dialogue: Dialogue) -> None:
        with suppress(CallFailed):
            if not self.row.is_lost:
                # A failure here leaves the checkpoint where it is.
                dialogue.call("shutdownRequested", within=self.rules.grace)
                self._note_checkpoint()
            dialogue.call("leaseLost", within=self.rules.grace)

    def _note_checkpoint(self) -> None:
        self._backlog.note(self.row.lease.checkpoint)
        self._note_unread()

    def _note_unread(self) -> None:
        if self._backlog.records:
            self.row.unread_since = arrival_of(self._backlog.records[0])

    # --- after an error ---------------------------------------------------------------------------------------------

    def _attempt(self, act: Callable[[], None], *, is_end: bool = False) -> None:
        """Let the processor do this; by the policy, again in a new process, which first gets what isn't checkpointed."""
        while True:
            try:
                act()
            except CallFailed as failed:
                if self.row.may_have_moved:
                    # The next process begins at the row, and hears what is prepared there.
                    self._look()
                self._note_checkpoint()
                if self.row.is_lost:
                    # The processor may have failed because of that.
                    return
                self._kill(failed)
                if self.rules.on_error is OnProcessorError.RETRY and self._backlog.without_payload:
                    self._begins_anew = True
                    return
                if not self._tries_again():
                    self.trouble = self._sentence(failed)
                    return
                act = self._end_once_more if is_end else self._deliver_once_more
            else:
                return

    def _deliver_once_more(self) -> None:
        for call in calls_of(tuple(self._backlog.records), most=self.rules.records):
            self._hand_out(call)

    def _end_once_more(self) -> None:
        self._deliver_once_more()
        self._end_shard()

    def _kill(self, failed: CallFailed) -> None:
        """End the process at once: it may hang."""
        self._process.__exit__(type(failed), failed, None)
        self._dialogue = None

    def _tries_again(self) -> bool:
        if self.rules.on_error is not OnProcessorError.RETRY:
            return False
        self._failed += 1
        if self._failed >= self.rules.tries:
            return False
        self.pause(self.rules.backoff * 2 ** (self._failed - 1))
        return True

    def _sentence(self, failed: CallFailed) -> str:
        trace = f"\n{failed.trace.strip()}" if failed.trace.strip() else ""
        return f"{self._backlog.stopped_at()}: {failed}{trace}"
