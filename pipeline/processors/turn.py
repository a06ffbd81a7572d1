"""A processor's turn: its work on the records of one shard in one wave, by one process, and by a new one after
each error.

    a process begins at the mark ─► calls ─► checkpoint ─► the mark moves behind the calls that are checkpointed
             ▲                        │
             └─ the rule says: again ─┴─ an error; rows and state since the mark are thrown away

What is before the mark counts: its rows, the state after it, and the position. A mark stands between two calls, and
never inside of a Kinesis record.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.processors.checkpoints import Checkpoints
from headrace.pipeline.processors.dialogue import CallFailed, Dialogue, Lines
from headrace.pipeline.processors.values import Delivered, Row, ShardWork, TurnReport, TurnRules
from headrace.pipeline.settings.choices import OnProcessorError

_MOST_BYTES = 8 << 20
"""Payload bytes of one call."""
MOST_STATE = 256 << 10
"""Bytes of a state. Each commit has those of its shards in its ledger."""
_ENDINGS = 2
"""How often a processor is asked to checkpoint the shard's end."""


@dataclass(frozen=True, slots=True)
class ProcessorCall:
    """The result of one call of the processor."""

    end: int
    """How many records were delivered up to its end."""
    rows: tuple[Row, ...]
    state: str | None


@dataclass(frozen=True, slots=True)
class _Failure:
    why: str
    trace: str
    span: range
    """The records of the call that failed; empty where it was a call without records."""


@dataclass(slots=True)
class ShardTurn:
    work: ShardWork
    records: Sequence[Delivered]
    rules: TurnRules
    start: Callable[[], AbstractContextManager[Lines]]
    """Starts a process of the processor."""
    keep: Callable[[Delivered, Sequence[Row]], None]
    """Takes rows that count, with the last record of their call."""
    check: Callable[[Sequence[Any]], tuple[Row, ...]]
    """The rows as the table has them. Raises ValueError."""
    pause: Callable[[float], None]
    mark: int = 0
    state: str | None = None
    ended: bool = False
    rows: int = 0
    aside: dict[int, str] = field(default_factory=dict)
    """Records that go to quarantine: the record's place in the wave -> the reason."""
    _notes: list[str] = field(default_factory=list)
    _suspects: range = range(0)
    _size: int = 0
    """How many of the suspects are delivered in one call."""
    _failed: int = 0

    def run(self) -> TurnReport:
        self.state, trouble = self.work.state, ""
        while failure := self._process():
            if not self._goes_on(failure):
                trouble = self._sentence(failure)
                break
        if not (trouble or self.mark or not self.records):
            trouble = (
                f"{self.work.key}: the processor got {counted(len(self.records), 'record')} and checkpointed none of "
                "them, so that none counts. Call checkpoint() in process_records or in shutdown_requested, with which "
                "each wave ends"
            )
        last = self.records[self.mark - 1] if self.mark else None
        return TurnReport(
            self.work.key,
            self.mark,
            last and (last.sequence, last.sub, last.arrival_ms),
            self.ended,
            self.rows,
            sum(place < self.mark for place in self.aside),
            self.state,
            trouble,
            tuple(self._notes),
        )

    # --- one process ------------------------------------------------------------------------------------------------

    def _process(self) -> _Failure | None:
        """Let one process work from the mark to the end. Returns how it failed."""
        span = range(0)
        checkpoints = Checkpoints.since(self._before_mark())
        try:
            with self.start() as child:
                dialogue = Dialogue(child, checkpoints)
                self._initialize(dialogue)
                with self._stopping(dialogue):
                    calls: list[ProcessorCall] = []
                    for span in self._calls():
                        # Rows and state of a call wait here until its records are checkpointed.
                        # Those of a process that fails before that never get into a file.
                        calls.append(self._call(dialogue, span, calls))
                        self._move_mark(calls, checkpoints)
                    span = range(0)
                    self._end(dialogue, calls)
        except CallFailed as failed:
            return _Failure(str(failed), failed.trace, span)
        return None

    @contextmanager
    def _stopping(self, dialogue: Dialogue) -> Iterator[None]:
        """Where the task is interrupted, the processor is told and has its grace. Nothing of the wave counts then."""
        try:
            yield
        except KeyboardInterrupt:
            with suppress(CallFailed):
                dialogue.stop(within=self.rules.grace)
            raise

    def _initialize(self, dialogue: Dialogue) -> None:
        place = self._before_mark()
        # A member that KCL's daemon lacks is only for a processor that has given a state: another one may refuse it.
        state = {} if self.state is None else {"state": json.loads(self.state)}
        dialogue.call(
            "initialize",
            within=self.rules.timeout,
            shardId=self.work.key.shard_id,
            sequenceNumber="TRIM_HORIZON" if place is None else str(place[0]),
            subSequenceNumber=0 if place is None else place[1],
            **state,
        )

    def _before_mark(self) -> tuple[int, int] | None:
        """The record before which everything counts."""
        if self.mark:
            return self.records[self.mark - 1].place
        after = self.work.after
        return None if after is None or after.sequence is None else (after.sequence, after.sub)

    def _calls(self) -> Iterator[range]:
        begin = self.mark
        while begin < len(self.records):
            end = self._end_of_call(begin)
            yield range(begin, end)
            begin = end

    def _end_of_call(self, begin: int) -> int:
        most = min(len(self.records), begin + self.rules.records)
        if begin in self._suspects:
            most = min(most, begin + self._size, self._suspects.stop)
        elif begin < self._suspects.start:
            most = min(most, self._suspects.start)
        size, end = 0, begin
        while end < most and (end == begin or size + len(self.records[end].data) <= _MOST_BYTES):
            size += len(self.records[end].data)
            end += 1
        return end

    def _call(self, dialogue: Dialogue, span: range, calls: Sequence[ProcessorCall]) -> ProcessorCall:
        records = [self.records[place] for place in span if place not in self.aside]
        if not records:
            return ProcessorCall(span.stop, (), calls[-1].state if calls else self.state)
        return self._given(span.stop, dialogue.process_records(records, within=self.rules.timeout))

    def _given(self, end: int, status: Any) -> ProcessorCall:
        try:
            rows = self.check(status.get("rows") or ())
        except ValueError as error:
            # Before the call counts: a row that can't be written would fail the whole task, with
            # all of its shards.
            raise CallFailed(f"the processor's rows don't fit the table: {error}") from error
        # A status without a state: the processor has none.
        state = None if status.get("state") is None else json.dumps(status["state"], separators=(",", ":"))
        if state is not None and len(state) > MOST_STATE:
            raise CallFailed(
                f"the processor's state has {len(state):,} bytes, and each commit keeps at most {MOST_STATE:,} for a shard; "
                "keep less, or write it as rows"
            )
        return ProcessorCall(end, rows, state)

    def _end(self, dialogue: Dialogue, calls: list[ProcessorCall]) -> None:
        checkpoints, within, end = dialogue.checkpoints, self.rules.grace, len(self.records)
        if not self.work.ends:
            calls.append(self._given(end, dialogue.call("shutdownRequested", within=within)))
            self._move_mark(calls, checkpoints)
            try:
                dialogue.call("leaseLost", within=within)
            except CallFailed as failed:
                # It can change nothing any more.
                self._notes.append(f"{self.work.key}: {failed}")
            return
        checkpoints.end()
        for _ in range(_ENDINGS):
            calls.append(self._given(end, dialogue.call("shardEnded", within=self.rules.timeout)))
            self._move_mark(calls, checkpoints)
            if checkpoints.has_ended:
                self.ended = True
                return
        raise CallFailed(
            f"the shard has ended, and the processor hasn't checkpointed that in shard_ended, although it was asked "
            f"{_ENDINGS} times. The shard's children wait for it"
        )

    def _move_mark(self, calls: list[ProcessorCall], checkpoints: Checkpoints) -> None:
        """Let those calls count whose records are checkpointed."""
        reached = self._reached(checkpoints)
        while calls and calls[0].end <= reached:
            # Calls that end inside of a Kinesis record count together with the one that ends it.
            whole = next((n for n, call in enumerate(calls) if self._is_between(call.end)), None)
            if whole is None or calls[whole].end > reached:
                return
            for call in calls[: whole + 1]:
                self._keep(call)
            del calls[: whole + 1]

    def _keep(self, call: ProcessorCall) -> None:
        if call.rows:
            self.keep(self._record_before(call.end), call.rows)
            self.rows += len(call.rows)
        self.mark, self.state = call.end, call.state

    def _record_before(self, place: int) -> Delivered:
        if place:
            return self.records[place - 1]
        # At the end of a shard of which the wave has no record: the rows come after the last one of an earlier wave.
        after = self.work.after
        if after is None or after.sequence is None or after.arrival is None:
            raise CallFailed(
                "shardEnded gave rows of a shard that has no record, and each row belongs to a record"
            )
        return Delivered(after.sequence, after.sub, int(after.arrival.timestamp() * 1000), "", b"")

    def _reached(self, checkpoints: Checkpoints) -> int:
        """How many records are checkpointed."""
        if checkpoints.has_ended:
            return len(self.records)
        place = checkpoints.place
        reached = 0 if place is None else bisect_right(self.records, place, key=lambda record: record.place)
        reached = max(reached, self.mark)
        # A record in quarantine is dealt with, and a processor that never got it can't checkpoint
        # it.
        while reached in self.aside:
            reached += 1
        return reached

    def _is_between(self, place: int) -> bool:
        """Whether no Kinesis record has user records on both sides."""
        return (
            place in (0, len(self.records))
            or self.records[place].sequence != self.records[place - 1].sequence
        )

    # --- after an error ---------------------------------------------------------------------------------------------

    def _goes_on(self, failure: _Failure) -> bool:
        """Whether another process goes on from the mark."""
        match self.rules.on_error:
            case OnProcessorError.HALT:
                return False
            case OnProcessorError.RETRY:
                self._failed += 1
                if self._failed >= self.rules.tries:
                    return False
                self.pause(self.rules.backoff * 2 ** (self._failed - 1))
                return True
            case OnProcessorError.HALVE:
                return self._halves(failure.span)
            case OnProcessorError.QUARANTINE:
                if self._halves(failure.span):
                    return True
                # A call without records has no record at fault. And where too many are, the code is
                # at fault, so that setting aside one after the other would empty the stream into
                # quarantine.
                if not failure.span or len(self.aside) >= self.rules.most_aside:
                    return False
                place = next(place for place in failure.span if place not in self.aside)
                self.aside[place] = failure.why
                return True

    def _halves(self, span: range) -> bool:
        """Look for the record at fault in half as many. False where one record is left, or no record is at fault."""
        records = [place for place in span if place not in self.aside]
        if len(records) < 2:
            return False
        self._suspects, self._size = range(records[0], span.stop), len(records) // 2
        return True

    def _sentence(self, failure: _Failure) -> str:
        records = [self.records[place] for place in failure.span if place not in self.aside]
        where = ""
        if records:
            first, last = records[0], records[-1]
            where = f", at the record {first.sequence}/{first.sub}"
            if last != first:
                where = f", at one of the records {first.sequence}/{first.sub} to {last.sequence}/{last.sub}"
        trace = f"\n{failure.trace.strip()}" if failure.trace.strip() else ""
        return f"{self.work.key}{where}: {failure.why}{trace}"
