"""Reading and staging in memory: files are lists of rows by path, so that a test can count what landed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count as counting
from itertools import pairwise

from headrace.pipeline.core.ledger.batch import (
    WITHIN_THE_SECOND,
    Batch,
    BatchLimits,
    Gap,
    Manifest,
    Staged,
    StagedFile,
)
from headrace.pipeline.core.ledger.belonging import why_outside, why_too_early
from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import DataLoss, HeadraceError, Unknown, WrongStream
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from tests.memory.aggregates import LandedRow, WholeRow, row_of
from tests.memory.source import MemoryRecord, MemorySource


@dataclass(frozen=True, slots=True)
class _Answer:
    """What Kinesis answers about one shard."""

    source: MemorySource
    now: datetime
    gap: Gap | None
    records: tuple[MemoryRecord, ...]
    inside: bool
    """Whether the position stays inside of a record, where nothing is read."""


class MemoryStage:
    """`start` is called when the stage is opened, and may wait, tell about it and raise. `fault` is called for each shard
    before it is read, and may raise. `tells_end` says whether the page with the last records of a closed shard tells the shard's
    end; if not, the next page does. `answers`: which streams a task finds where it reads the shard, normally the source's.
    `files` says how many files a wave with so many rows makes: a shard may have rows in several of them."""

    def __init__(self, source: MemorySource, clock: Clock) -> None:
        self.rows: dict[str, tuple[LandedRow, ...]] = {}
        self.start: Callable[[OnWaiting], None] = lambda _: None
        self.fault: Callable[[ShardKey], None] = lambda _: None
        self.tells_end: Callable[[ShardKey], bool] = lambda _: True
        self.answers: Callable[[ShardKey], MemorySource] = lambda _: source
        self.files: Callable[[int], int] = lambda _: 1
        self._proofs: set[tuple[StreamId, MemorySource]] = set()
        self._is_open = False
        self._clock = clock
        self._names = counting(1)

    def open(self, on_waiting: OnWaiting) -> None:
        if not self._is_open:
            self.start(on_waiting)
            self._is_open = True

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        self.open(lambda _: None)
        most = limits.records // len(batches)
        read = [self._read(batch, most, unpack=spec.unpack) for batch in batches]
        rows = tuple(row for _, its in read for row in its)
        return Manifest(tuple(staged for staged, _ in read), self.files_of(rows, spec))

    def files_of(self, rows: tuple[LandedRow, ...], spec: StagingSpec) -> tuple[StagedFile, ...]:
        if not rows:
            return ()
        # At least as many rows as files, so that none is empty.
        count = max(1, min(self.files(len(rows)), len(rows)))
        bounds = [len(rows) * n // count for n in range(count + 1)]
        return tuple(self._file(rows[start:end], spec) for start, end in pairwise(bounds))

    def _file(self, rows: tuple[LandedRow, ...], spec: StagingSpec) -> StagedFile:
        path = f"{spec.location}/{next(self._names)}"
        self.rows[path] = rows
        now = self._clock.now()
        shards = frozenset(key for key, *_ in rows)
        return StagedFile(
            path, shards, len(rows), len(rows), footer=b"", partition=f"{now:%Y-%m-%d}", staged_at=now
        )

    def _read(self, batch: Batch, most: int, *, unpack: bool) -> tuple[Staged, tuple[LandedRow, ...]]:
        nothing = Staged(batch.key, batch.after, batch.after or Position())
        try:
            answer = self._answer(batch)
        except Unknown:
            gone = DataLoss(
                f"{batch.key} is gone from Kinesis before its end was read: a person decides by `headrace skip`"
            )
            return replace(nothing, error=str(gone), data_loss=True), ()
        except HeadraceError as error:
            return replace(nothing, error=str(error), data_loss=isinstance(error, DataLoss)), ()
        records = _up_to(answer.records, batch.until)
        taken = records[: max(1, most)]
        # A reading that ends at a position is a window's, which has a table of its own.
        if not unpack and batch.until is None and taken and taken[0].sequence == nothing.upto.sequence:
            why = f"{batch.key} stands inside an aggregate, and the table keeps aggregates whole"
            return replace(nothing, error=why), ()
        return self._staged(batch, answer, taken, more=len(taken) < len(records), unpack=unpack)

    def _answer(self, batch: Batch) -> _Answer:
        """What Kinesis has of the shard after the batch's position. Raises as the reader of a task does."""
        before = batch.after or Position()
        self.fault(batch.key)
        source = self.answers(batch.key)
        now = self._proved(batch.key, source).asked
        gap = self._gap(batch, now)
        records = source.records(batch.key, _begin(batch, before))
        _check(batch, records)
        inside = before.inside
        if before.reads_again and records and records[0].sequence == before.sequence:
            inside = False
            if before.sub >= records[0].users - 1:
                records = records[1:]
        return _Answer(source, now, gap, records, inside)

    def _staged(
        self, batch: Batch, answer: _Answer, taken: Sequence[MemoryRecord], *, more: bool, unpack: bool
    ) -> tuple[Staged, tuple[LandedRow, ...]]:
        rows = tuple(row for record in taken for row in _rows(batch, record, unpack=unpack))
        behind = max(answer.now - taken[-1].arrival, timedelta(milliseconds=1)) if more else timedelta(0)
        tells_end = not more and (not taken or self.tells_end(batch.key))
        children = answer.source.children(batch.key) if tells_end else None
        upto = _upto(batch, answer, taken, children, more=more, unpack=unpack)
        first, latest = (taken[0].arrival, taken[-1].arrival) if taken else (None, None)
        staged = Staged(
            batch.key,
            batch.after,
            upto,
            len(rows),
            sum(len(record.data) for record in taken),
            first,
            latest,
            behind,
            pages=1,
            gap=answer.gap,
            records=len(taken),
            children=children or (),
            unpacked=unpack,
        )
        return staged, rows

    def _proved(self, key: ShardKey, source: MemorySource) -> StreamFacts:
        """As a Spark task proves that its stream is the driver's. A process asks once for each stream: it doesn't see that the
        stream was deleted and created again since."""
        facts = source.describe(key.stream.arn)
        if (key.stream, source) not in self._proofs and facts.stream != key.stream:
            raise WrongStream(f"the task finds {facts.stream} and not {key.stream}; nothing was read")
        self._proofs.add((key.stream, source))
        return facts

    @staticmethod
    def _gap(batch: Batch, now: datetime) -> Gap | None:
        now += WITHIN_THE_SECOND
        if now - batch.witness <= batch.retention:
            return None
        if not batch.goes_on:
            raise DataLoss(
                f"records of {batch.key} may have left the stream before they were read: a person decides by `headrace skip`"
            )
        return Gap(batch.witness, now - batch.retention)


def _upto(
    batch: Batch,
    answer: _Answer,
    taken: Sequence[MemoryRecord],
    children: tuple[Child, ...] | None,
    *,
    more: bool,
    unpack: bool,
) -> Position:
    """The position after these records. `children`: None where the shard's end isn't told yet."""
    before, until = batch.after or Position(), batch.until
    if until is not None and not until.ended and not more:
        return until
    last = taken[-1] if taken else None
    is_over, unlisted = children is not None, answer.source.lacks_listing(batch.key)
    return Position(
        last.sequence if last else before.sequence,
        (last.users - 1) * unpack if last else before.sub,
        ended=is_over,
        children=tuple(child.shard_id for child in children or ()),
        arrival=last.arrival if last else before.arrival,
        seen=_seen(batch, taken, answer.now, is_over=is_over, more=more, unlisted=unlisted),
        start=before.start,
        inside=answer.inside and last is None,
        skipped_until=None if last else before.skipped_until,
    )


def _seen(
    batch: Batch, taken: Sequence[MemoryRecord], now: datetime, *, is_over: bool, more: bool, unlisted: bool
) -> datetime | None:
    """Up to when the look shows that nothing newer was there."""
    before = batch.after or Position()
    if unlisted and not taken and not more:
        # The shard that goes on after this one may have had records for a while.
        return batch.witness
    if not more and not is_over and not taken:
        return now
    if is_over and not taken and before.sequence is None:
        return batch.witness
    return before.seen


def _check(batch: Batch, found: Sequence[MemoryRecord]) -> None:
    """As a Spark task refuses records that can't be the shard's."""
    # Numbers and arrivals grow.
    for record in (*found[:1], *found[-1:]):
        why = why_too_early(batch.key.stream, record.arrival) or why_outside(batch.numbers, record.sequence)
        if why is not None:
            raise WrongStream(f"{batch.key}: {why}; nothing was read")


def _begin(batch: Batch, before: Position) -> Start | int:
    """The start of reading, or the sequence number after which it begins."""
    if before.sequence is None:
        return batch.start
    return before.sequence - 1 if before.reads_again else before.sequence


def _up_to(found: tuple[MemoryRecord, ...], until: Position | None) -> tuple[MemoryRecord, ...]:
    """The records up to a position; before an end of the shard, all of them."""
    if until is None or until.ended:
        return found
    return tuple(r for r in found if r.sequence <= (until.sequence or 0))


def _rows(batch: Batch, record: MemoryRecord, *, unpack: bool) -> Iterator[LandedRow]:
    """The rows of the record after the batch's position, and up to its end. `unpack`: an aggregate in which the batch begins or ends is taken
    apart also without this."""
    before, until = batch.after or Position(), batch.until
    first = before.sub + 1 if record.sequence == before.sequence else 0
    users = record.users
    if until is not None and until.reads_again and not until.ended and record.sequence == until.sequence:
        users = min(users, until.sub + 1)
    whole = row_of(batch.key, record)
    if not unpack and (first, users) == (0, record.users):
        yield whole
        return
    yield from (whole.taken_apart() if isinstance(whole, WholeRow) else (whole,))[first:users]
