"""The reading of one shard within one task. All shards of the task share a budget of records, bytes and time (`Box`).

page ──> could records have left the stream unread before it? ── no ──> take it; stop at the newest record (tip),
                       │                                                at the shard's end, or when the budget is used
                      yes
                       ├── on_data_loss: stop      ──> end with DataLoss; the page isn't taken
                       └── on_data_loss: continue  ──> at the first page of a batch: record the gap, take the page;
                                                       later: end the batch before the page, the next batch records it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING

from pipeline.core.batch import WITHIN_THE_SECOND, Batch, BatchLimits, Gap, Staged
from pipeline.core.position import Position
from pipeline.errors import DataLoss, HeadraceError
from pipeline.lake_ports import Pages, RecordPage
from pipeline.ports import Clock

if TYPE_CHECKING:
    import pyarrow as pa

_ZERO = timedelta(0)


class Box:
    """What all shards of one task together may still read. Every page is counted, so that the task's memory is bounded by the
    budget and one page per thread.
    """

    def __init__(self, limits: BatchLimits, clock: Clock) -> None:
        self._records = limits.records
        self._bytes = limits.bytes
        self._deadline = clock.monotonic() + limits.seconds
        self._clock = clock
        self._lock = Lock()

    @property
    def has_room(self) -> bool:
        return self._records > 0 and self._bytes > 0 and self._clock.monotonic() < self._deadline

    def take(self, page: RecordPage) -> None:
        with self._lock:
            self._records -= page.rows
            self._bytes -= page.bytes

    def share(self, part: float) -> tuple[int, int]:
        """A fraction of the records and bytes that are left; at least one of each, so that every shard gets on."""
        return int(self._records * part) + 1, int(self._bytes * part) + 1


class ShardReading:
    """One batch while it is read. Only one thread at a time uses it."""

    def __init__(self, batch: Batch, pages: Pages) -> None:
        self.batch = batch
        self.over = False
        self.batches: list[pa.RecordBatch] = []
        self._pages = self._open(pages)
        self._witness = batch.witness
        """Until this time no record can have left the shard unread."""
        self._noted = batch.witness
        """Until this time no record can have left the shard unread, except in a recorded gap."""
        self._staged = Staged(batch.key, batch.after, batch.after or Position())

    @property
    def staged(self) -> Staged:
        return self._staged

    def read_on(self, box: Box, *, records: int, bytes_: int) -> None:
        """Read until this shard's share or the task's budget is used up, or there is no more to read."""
        records, bytes_ = self._staged.rows + records, self._staged.bytes + bytes_
        try:
            while (
                not self.over and self._staged.rows < records and self._staged.bytes < bytes_ and box.has_room
            ):
                self._read_page(box)
        except HeadraceError as error:
            self._stop(str(error), data_loss=isinstance(error, DataLoss))
        except ImportError:
            # The Spark worker lacks a package, which concerns the whole job and not one shard.
            raise
        except Exception as error:  # noqa: BLE001 - an unexpected error in one shard must not stop the others
            # Only the type is reported, because the text of an unexpected error could quote a record.
            self._stop(
                f"reading {self.batch.key} stopped at an unexpected {type(error).__name__}; records read before it are safe"
            )

    def failed_to_write(self, why: str) -> None:
        """The task's files couldn't be written, so that nothing of this shard was staged: its position doesn't move."""
        self.batches = []
        self._staged = Staged(
            self.batch.key,
            self.batch.after,
            self.batch.after or Position(),
            pages=self._staged.pages,
            error=why,
        )

    def _open(self, pages: Pages) -> Iterator[RecordPage]:
        """A generator, so that an error in opening the shard is raised inside read_on, which handles it."""
        yield from pages.pages(self.batch)

    def _read_page(self, box: Box) -> None:
        page = next(self._pages, None)
        if page is None:
            self.over = True
            return
        box.take(page)
        # Kinesis may have deleted records that arrived before this time. The answer's Date has whole seconds.
        forgotten = page.answered + WITHIN_THE_SECOND - self.batch.retention
        if forgotten > self._noted:
            if not self.batch.goes_on:
                raise DataLoss(self._loss_sentence(page))
            if self._staged.rows:
                # The ledger's gap comes before a batch's first row (I13). The next batch starts here and records the gap.
                self.over = True
                return
            self._note_gap(forgotten)
        at_tip = page.children is None and page.behind <= _ZERO
        self._take(page, at_tip=at_tip)
        self.over = at_tip or page.children is not None

    def _take(self, page: RecordPage, *, at_tip: bool) -> None:
        was = self._staged
        if page.records is not None:
            self.batches.append(page.records)
        self._witness = _latest(self._witness, page.last_arrival, page.answered if at_tip else None)
        self._noted = max(self._noted, self._witness)
        self._staged = replace(
            was,
            upto=_position(was.upto, page, at_tip=at_tip, witness=self._witness),
            rows=was.rows + page.rows,
            bytes=was.bytes + page.bytes,
            first_arrival=was.first_arrival or page.first_arrival,
            last_arrival=page.last_arrival or was.last_arrival,
            behind=page.behind,
            pages=was.pages + 1,
            iterator=page.iterator,
        )

    def _note_gap(self, until: datetime) -> None:
        self._staged = replace(self._staged, gap=Gap(self._witness, until))
        self._noted = until

    def _stop(self, why: str, *, data_loss: bool = False) -> None:
        self.over = True
        self._staged = replace(self._staged, error=why, data_loss=data_loss)

    def _loss_sentence(self, page: RecordPage) -> str:
        gap = page.answered - self._witness
        return (
            f"{self.batch.key}: records may have left the stream unread. The stream keeps records for {self.batch.retention}, "
            f"but only those before {self._witness.isoformat()} were read, which is {gap} ago. The position doesn't move. "
            f"Record the gap with `headrace skip --shard {self.batch.key.shard_id}` or set on_data_loss: continue"
        )


def _position(was: Position, page: RecordPage, *, at_tip: bool, witness: datetime) -> Position:
    seen = page.answered if at_tip else was.seen
    if page.last_sequence is not None:
        was = Position(sequence=page.last_sequence, arrival=page.last_arrival)
    if page.children is not None:
        # `seen` of an ended shard is the time from which its children are judged for lost records. For a shard with records
        # it is the arrival of the last one, or the time when the shard was read up to its newest record. For a shard that
        # never had a record it is the batch's own start. It is never the end of a gap: the children may have lost records in
        # the same time, and have to find that out.
        return replace(
            was,
            seen=_latest(witness, seen) if was.sequence is None else seen,
            ended=True,
            children=tuple(c.shard_id for c in page.children),
        )
    return replace(was, seen=seen, gap_accepted=False)


def _latest(first: datetime, *others: datetime | None) -> datetime:
    return max((first, *(t for t in others if t is not None)))
