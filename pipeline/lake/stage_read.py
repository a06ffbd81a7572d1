"""One shard being read within the task's box.

page ──> judged: could records have left the stream unread before it? ──> taken ──> tip, end, box full: over
                                    `──> stop before it: data loss. Where the batch goes on: at its first
                                         page the gap is noted; later the batch ends before it, and the
                                         next one notes it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING

from pipeline.core.batch import WITHIN_THE_SECOND, Batch, Gap, Limits, Staged
from pipeline.core.position import Position
from pipeline.errors import DataLoss, HeadraceError
from pipeline.ports import Clock, Page, Pages

if TYPE_CHECKING:
    import pyarrow as pa

_ZERO = timedelta(0)


class Box:
    """What all shards of one task may still read together. Every page counts, so memory stays bounded: the
    budget, and the pages in flight when it ran out.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._records = limits.records
        self._bytes = limits.bytes
        self._deadline = clock.monotonic() + limits.seconds
        self._clock = clock
        self._lock = Lock()

    @property
    def has_room(self) -> bool:
        return self._records > 0 and self._bytes > 0 and self._clock.monotonic() < self._deadline

    def take(self, page: Page) -> None:
        with self._lock:
            self._records -= page.rows
            self._bytes -= page.bytes

    def share(self, part: float) -> tuple[int, int]:
        """Records and bytes that a part of what is left comes to."""
        return int(self._records * part) + 1, int(self._bytes * part) + 1


class ShardReading:
    """How far one batch has got. Used by one thread at a time."""

    def __init__(self, batch: Batch, pages: Pages) -> None:
        self.batch = batch
        self.over = False
        self.batches: list[pa.RecordBatch] = []
        self._pages = self._open(pages)
        self._witness = batch.witness
        """Up to here the shard was whole."""
        self._noted = batch.witness
        """Up to here it was whole, or what is lost was noted."""
        self._staged = Staged(batch.key, batch.after, batch.after or Position())

    @property
    def staged(self) -> Staged:
        return self._staged

    def read_on(self, box: Box, *, records: int, bytes_: int) -> None:
        """Read until the share or the box is used up, or there is no more to read."""
        records, bytes_ = self._staged.rows + records, self._staged.bytes + bytes_
        try:
            while (
                not self.over and self._staged.rows < records and self._staged.bytes < bytes_ and box.has_room
            ):
                self._read_page(box)
        except HeadraceError as error:
            self._stop(str(error), data_loss=isinstance(error, DataLoss))
        except ImportError:
            raise  # not this shard's trouble: the worker lacks a package, and the whole job says so
        except Exception as error:  # noqa: BLE001 - one shard's surprise must not hold up the others
            # Its text could quote a record, so its kind has to do.
            self._stop(
                f"{self.batch.key} stopped by an unexpected {type(error).__name__}; what came before it is safe"
            )

    def failed_to_write(self, why: str) -> None:
        """Nothing of this shard was staged after all: back to where it began."""
        self.batches = []
        self._staged = Staged(
            self.batch.key,
            self.batch.after,
            self.batch.after or Position(),
            pages=self._staged.pages,
            error=why,
        )

    def _open(self, pages: Pages) -> Iterator[Page]:
        """A generator around the source, so that even its first step fails inside read_on."""
        yield from pages.pages(self.batch)

    def _read_page(self, box: Box) -> None:
        page = next(self._pages, None)
        if page is None:
            self.over = True
            return
        box.take(page)
        forgotten = page.answered + WITHIN_THE_SECOND - self.batch.retention
        if forgotten > self._noted:
            if not self.batch.goes_on:
                raise DataLoss(self._loss_sentence(page))
            if self._staged.rows:
                self.over = True
                return
            self._note_gap(forgotten)
        at_tip = page.children is None and page.behind <= _ZERO
        self._take(page, at_tip=at_tip)
        self.over = at_tip or page.children is not None

    def _take(self, page: Page, *, at_tip: bool) -> None:
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
        )

    def _note_gap(self, until: datetime) -> None:
        self._staged = replace(self._staged, gap=Gap(self._witness, until))
        self._noted = until

    def _stop(self, why: str, *, data_loss: bool = False) -> None:
        self.over = True
        self._staged = replace(self._staged, error=why, data_loss=data_loss)

    def _loss_sentence(self, page: Page) -> str:
        gap = page.answered - self._witness
        return (
            f"{self.batch.key}: records may have left the stream unread, for it keeps {self.batch.retention} and was "
            f"last seen whole {gap} before this answer, at {self._witness.isoformat()}; the position stays there; "
            f"record the gap with `headrace skip --shard {self.batch.key.shard_id}` or set on_data_loss: continue"
        )


def _position(was: Position, page: Page, *, at_tip: bool, witness: datetime) -> Position:
    seen = page.answered if at_tip else was.seen
    if page.last_sequence is not None:
        was = Position(sequence=page.last_sequence, arrival=page.last_arrival)
    if page.children is not None:
        # The children's witness. Of a shard with records, its last one, or when it was at its tip: the children go on from
        # there, whenever it was closed. One that never had a record was whole up to what it began with. Never the end
        # of a gap: what its children lost at that time is theirs to tell.
        return replace(
            was,
            seen=_latest(witness, seen) if was.sequence is None else seen,
            ended=True,
            children=tuple(c.shard_id for c in page.children),
        )
    return replace(was, seen=seen, gap_accepted=False)


def _latest(first: datetime, *others: datetime | None) -> datetime:
    return max((first, *(t for t in others if t is not None)))
