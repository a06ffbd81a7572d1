"""Reading and staging in memory: files are lists of rows by path, so that a test can count what landed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import DataLoss, HeadraceError, Unknown, WrongStream
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from tests.memory.aggregates import LandedRow, WholeRow, row_of
from tests.memory.source import MemoryRecord, MemorySource


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
        before = batch.after or Position()
        nothing = Staged(batch.key, batch.after, before)
        try:
            self.fault(batch.key)
            source = self.answers(batch.key)
            now = self._proved(batch.key, source).asked
            gap = self._gap(batch, now)
            found = source.records(batch.key, _begin(batch, before))
            _check(batch, found)
        except Unknown:
            gone = DataLoss(
                f"{batch.key} is gone from Kinesis before its end was read: a person decides by `headrace skip`"
            )
            return replace(nothing, error=str(gone), data_loss=True), ()
        except HeadraceError as error:
            return replace(nothing, error=str(error), data_loss=isinstance(error, DataLoss)), ()
        inside = before.inside
        if before.reads_again and found and found[0].sequence == before.sequence:
            inside = False
            if before.sub >= found[0].users - 1:
                found = found[1:]
        wanted, until = _up_to(found, batch.until), batch.until
        taken = wanted[: max(1, most)]
        # A reading that ends at a position is a window's, which has a table of its own.
        if not unpack and until is None and taken and taken[0].sequence == before.sequence:
            why = f"{batch.key} stands inside an aggregate, and the table keeps aggregates whole"
            return replace(nothing, error=why), ()
        rows = tuple(row for r in taken for row in _rows(batch, r, unpack=unpack))
        more = len(taken) < len(wanted)
        behind = max(now - taken[-1].arrival, timedelta(milliseconds=1)) if more else timedelta(0)
        tells_end = not more and (not taken or self.tells_end(batch.key))
        children = source.children(batch.key) if tells_end else None
        last = taken[-1] if taken else None
        upto = Position(
            last.sequence if last else before.sequence,
            (last.users - 1) * unpack if last else before.sub,
            ended=children is not None,
            children=tuple(c.shard_id for c in children or ()),
            arrival=last.arrival if last else before.arrival,
            seen=_seen(
                batch,
                taken,
                now,
                is_over=children is not None,
                more=more,
                unlisted=source.lacks_listing(batch.key),
            ),
            start=before.start,
            inside=inside and last is None,
            skipped_until=None if last else before.skipped_until,
        )
        if until is not None and not until.ended and len(taken) == len(wanted):
            upto = until
        size = sum(len(r.data) for r in taken)
        first, latest = (taken[0].arrival, taken[-1].arrival) if taken else (None, None)
        staged = Staged(
            batch.key,
            batch.after,
            upto,
            len(rows),
            size,
            first,
            latest,
            behind,
            pages=1,
            gap=gap,
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
