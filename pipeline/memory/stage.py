"""Reading and staging in memory: files are lists of rows by path, so that a test can count what landed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

from pipeline.core.batch import WITHIN_THE_SECOND, Batch, BatchLimits, Gap, Manifest, Staged, StagedFile
from pipeline.core.position import Position
from pipeline.core.stream import ShardKey
from pipeline.errors import DataLoss, HeadraceError, Unknown
from pipeline.lake_ports import OnWaiting, StagingSpec
from pipeline.memory.source import MemoryRecord, MemorySource
from pipeline.ports import Clock

StagedRow = tuple[ShardKey, int]
"""A record as a test knows it: shard and sequence number."""


class MemoryStage:
    """`start` is called when the stage is opened, and may wait, tell about it and raise. `fault` is called for each shard
    before it is read, and may raise. One file holds a whole wave."""

    def __init__(self, source: MemorySource, clock: Clock) -> None:
        self.rows: dict[str, tuple[StagedRow, ...]] = {}
        self.start: Callable[[OnWaiting], None] = lambda _: None
        self.fault: Callable[[ShardKey], None] = lambda _: None
        self._is_open = False
        self._source = source
        self._clock = clock
        self._names = count(1)

    def open(self, on_waiting: OnWaiting) -> None:
        if not self._is_open:
            self.start(on_waiting)
            self._is_open = True

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        self.open(lambda _: None)
        read = [self._read(batch, limits.records // len(batches)) for batch in batches]
        rows = tuple((staged.key, r.sequence) for staged, records in read for r in records)
        if not rows:
            return Manifest(tuple(staged for staged, _ in read))
        path = f"{spec.location}/{next(self._names)}"
        self.rows[path] = rows
        now = self._clock.now()
        shards = frozenset(key for key, _ in rows)
        file = StagedFile(
            path, shards, len(rows), len(rows), footer=b"", partition=f"{now:%Y-%m-%d}", staged_at=now
        )
        return Manifest(tuple(staged for staged, _ in read), (file,))

    def _read(self, batch: Batch, most: int) -> tuple[Staged, tuple[MemoryRecord, ...]]:
        before = batch.after or Position()
        nothing = Staged(batch.key, batch.after, before)
        try:
            self.fault(batch.key)
            now = self._source.describe(batch.key.stream.arn).asked
            gap = self._gap(batch, now)
            found = self._source.records(
                batch.key, batch.start if before.sequence is None else before.sequence
            )
        except Unknown:
            gone = DataLoss(
                f"{batch.key} is gone from Kinesis before its end was read: a person decides by `headrace skip`"
            )
            return replace(nothing, error=str(gone), data_loss=True), ()
        except HeadraceError as error:
            return replace(nothing, error=str(error), data_loss=isinstance(error, DataLoss)), ()
        taken = found[: max(1, most)]
        more = len(taken) < len(found)
        behind = max(now - taken[-1].arrival, timedelta(milliseconds=1)) if more else timedelta(0)
        children = self._source.children(batch.key) if len(taken) == len(found) else None
        last = taken[-1] if taken else None
        upto = Position(
            last.sequence if last else before.sequence,
            ended=children is not None,
            children=tuple(c.shard_id for c in children or ()),
            arrival=last.arrival if last else before.arrival,
            seen=now
            if not behind and children is None
            else batch.witness
            if children is not None and last is None and before.sequence is None
            else before.seen,
            start=before.start,
        )
        size = sum(len(r.data) for r in taken)
        first, latest = (taken[0].arrival, taken[-1].arrival) if taken else (None, None)
        staged = Staged(
            batch.key, batch.after, upto, len(taken), size, first, latest, behind, pages=1, gap=gap
        )
        return staged, taken

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
