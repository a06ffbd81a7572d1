"""A delivery: the records of one shard to one process of a processor, as they are read.

    initialize ─► processRecords ... ─► shutdownRequested ─► leaseLost       the shard goes on
         ▲             │             ├► shardEnded                           the shard has ended
         │             │             └► leaseLost                            another process has the lease
         └── retry: a new process, at the checkpoint in the row, with the records since then

Nothing is moved behind the processor's back: the row has what it has checkpointed. Whatever ends here, the next delivery
begins at the row.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from headrace.pipeline.core.ledger.batch import Batch, Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.processors.application.kept import KeptLines
from headrace.pipeline.processors.application.memory import Memory, read_memory
from headrace.pipeline.processors.application.row_checkpoints import ClaimedRow, RowCheckpoints
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.dialogue import CallFailed, Dialogue, Lines
from headrace.pipeline.processors.values import Delivered, TurnRules
from headrace.pipeline.settings.choices import OnProcessorError

_MOST_BYTES = 8 << 20
"""Payload bytes of one call."""
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
    _since: list[Delivered] = field(default_factory=list)
    """Delivered records that aren't checkpointed."""
    _reached: Delivered | None = None
    """The last record that was checkpointed in this delivery."""
    _forgotten: int = 0
    """How many of these, from the first one on, an earlier wave has delivered: their payloads are gone."""
    _begins_anew: bool = False
    """Whether the process has failed, and the next wave begins at the row with a new one."""
    _process: ExitStack = field(default_factory=ExitStack)
    _dialogue: Dialogue | None = None
    _last: Delivered | None = None
    """The last record that was delivered."""
    _failed: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the processor gets no more records."""
        return bool(self.trouble) or self.row.is_lost or self._begins_anew

    @property
    def is_complete(self) -> bool:
        """Whether everything that was delivered is checkpointed."""
        return not self._since

    @property
    def has_rest(self) -> bool:
        """Whether the checkpoint is inside of a Kinesis record, of which the processor has got the rest."""
        last = self.row.lease.checkpoint
        return last.is_digits and bool(self._since) and self._since[0].sequence == int(last.sequence)

    def begin(self) -> Batch:
        """Begin at the row as it is now. Returns what is to be read."""
        planned_at = self.row.lease.checkpoint
        # Where the row can't be read now, the condition of the next checkpoint tells.
        with suppress(HeadraceError):
            self.row.look()
        last, after = self.row.lease.checkpoint, self.batch.after
        if last == planned_at or not last.is_digits:
            return self.resume() or self.batch
        # Spark has begun the task once more, or the answer of a write was lost.
        moved = Position(
            int(last.sequence), last.sub, seen=None if after is None else after.seen, inside=True
        )
        return self.resume() or replace(self.batch, after=moved, iterator=None, parents=())

    def resume(self) -> Batch | None:
        """Go on with the process that an earlier wave has kept. Returns what is left to read for it; None where there is no
        such process, or where it doesn't know what has become of its shard since."""
        lines = self._process.enter_context(self.meet())
        if lines is None or lines.memory is None:
            self._process.close()
            return None
        memory = read_memory(lines.memory)
        checkpoints = RowCheckpoints.of(self.row)
        dialogue = Dialogue(lines, checkpoints)
        if (memory.code, memory.checkpoint) != (self.code, self.row.lease.checkpoint):
            with suppress(CallFailed):
                dialogue.call("leaseLost", within=self.rules.grace)
            self._process.close()
            return None
        checkpoints.deliver(memory.last.place)
        self._dialogue, self._since, self._forgotten = dialogue, list(memory.since), len(memory.since)
        arrival = _arrival(memory.last)
        after = Position(memory.last.sequence, memory.last.sub, arrival=arrival, inside=True)
        self._last = memory.last
        return replace(
            self.batch, after=after, witness=max(self.batch.witness, arrival), iterator=None, parents=()
        )

    def take(self, records: Sequence[Delivered]) -> None:
        """Deliver these records. Records that come after a failure are left to the next delivery."""
        for call in self._calls(records):
            if self.is_over:
                return
            self._since += call
            self._last = call[-1]
            self.count += len(call)
            self._attempt(partial(self._hand_out, call))

    def end(self, *, has_ended: bool, keeps: bool = False) -> bool:
        """Let the process end. `has_ended`: whether the shard has no more records. `keeps`: where it has, the process stays for
        the next wave. Returns whether the processor has checkpointed the shard's end."""
        try:
            if self.trouble or self._begins_anew:
                return False
            if keeps and not (has_ended or self.row.is_lost) and self._keep():
                return False
            if has_ended and not self.row.is_lost:
                self._attempt(self._end_shard, is_end=True)
                return not self.is_over and self._checkpoints.has_ended
            if self._dialogue is not None:
                self._end_process(self._dialogue)
            return False
        finally:
            self._process.close()

    def _keep(self) -> bool:
        """Leave the process to the next wave. Whether it could be left."""
        lines = None if self._dialogue is None else self._dialogue.child
        if not isinstance(lines, KeptLines) or self._last is None:
            return False
        memory = Memory(self.code, self.row.lease.checkpoint, self._last, tuple(self._since))
        try:
            lines.keep(memory.plain())
        except ChildFailed:
            return False
        return True

    def interrupt(self) -> None:
        """The task is to stop: the processor has its grace, and may checkpoint."""
        if self._dialogue is not None:
            with suppress(CallFailed):
                self._dialogue.stop(within=self.rules.grace, takes_checkpoints=True)
            self._note_checkpoint()
        self._process.close()

    def staged(self, read: Staged, *, ended: bool) -> Staged:
        """What the engine is told of the shard. `read`: how far it was read."""
        return replace(
            read,
            after=self.batch.after,
            upto=read.upto if ended else self._upto(read),
            rows=self.count,
            iterator=None,
            error=self.trouble or read.error,
        )

    def _upto(self, read: Staged) -> Position:
        """The checkpoint in the row as a position, with the time up to which nothing can be lost unseen."""
        last = self.row.lease.checkpoint
        # Only a look after which nothing was left to checkpoint tells anything of the time after the checkpoint.
        seen = read.upto.seen if self.is_complete and not read.upto.ended else None
        after = self.batch.after or Position()
        if self._reached is None or not last.is_digits:
            if self._since and after.witness is None:
                # The next look has to begin before the records that are delivered and not checkpointed.
                seen = _arrival(self._since[0]) - timedelta(milliseconds=1)
            return replace(after, seen=seen or after.seen)
        return Position(int(last.sequence), last.sub, arrival=_arrival(self._reached), seen=seen, inside=True)

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
                raise CallFailed(f"its process couldn't be started: {failed}") from failed
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
                "it gave rows, and a processor of mode application has no table; let it write them elsewhere, or use "
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

    def _calls(self, records: Sequence[Delivered]) -> Iterator[list[Delivered]]:
        call: list[Delivered] = []
        size = 0
        for record in records:
            if call and (len(call) >= self.rules.records or size + len(record.data) > _MOST_BYTES):
                yield call
                call, size = [], 0
            call.append(record)
            size += len(record.data)
        if call:
            yield call

    def _note_checkpoint(self) -> None:
        last = self.row.lease.checkpoint
        if not last.is_digits:
            return
        place = int(last.sequence), last.sub
        count = bisect_right(self._since, place, key=lambda record: record.place)
        if count:
            self._reached = self._since[count - 1]
            self._forgotten = max(0, self._forgotten - count)
            del self._since[:count]

    # --- after an error ---------------------------------------------------------------------------------------------

    def _attempt(self, act: Callable[[], None], *, is_end: bool = False) -> None:
        """Let the processor do this; by the policy, again in a new process, which first gets what isn't checkpointed."""
        while True:
            try:
                act()
            except CallFailed as failed:
                self._note_checkpoint()
                if self.row.is_lost:
                    # The processor may have failed because of that.
                    return
                self._kill(failed)
                if self.rules.on_error is OnProcessorError.RETRY and self._forgotten:
                    self._begins_anew = True
                    return
                if not self._tries_again():
                    self.trouble = self._sentence(failed)
                    return
                act = self._end_once_more if is_end else self._deliver_once_more
            else:
                return

    def _deliver_once_more(self) -> None:
        for call in self._calls(tuple(self._since)):
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
        where = ""
        if self._since:
            first, last = self._since[0], self._since[-1]
            where = f", at one of the records {first.sequence}/{first.sub} to {last.sequence}/{last.sub}"
            if first == last:
                where = f", at the record {first.sequence}/{first.sub}"
        trace = f"\n{failed.trace.strip()}" if failed.trace.strip() else ""
        return f"the processor has stopped at its checkpoint{where}: {failed}{trace}"


def _arrival(record: Delivered) -> datetime:
    return datetime.fromtimestamp(record.arrival_ms / 1000, UTC)
