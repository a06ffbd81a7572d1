"""The reading of one shard within one task. All shards of the task share a budget of records, bytes and time (`Box`).

page ──> could records have left the stream unread before it? ── no ──> take it; stop at the newest record (tip),
                       │                                                at the shard's end, or when the budget is used
                      yes
                       ├── on_data_loss: stop      ──> end with DataLoss; the page isn't taken
                       └── on_data_loss: continue  ──> at the first page of a batch: record the gap, take the page;
                                                       later: end the batch before the page, the next batch records it
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Condition
from typing import TYPE_CHECKING

from headrace.pipeline.core.landing.pace import MOST_BYTES, MOST_RECORDS
from headrace.pipeline.core.ledger.batch import WITHIN_THE_SECOND, Batch, BatchLimits, Gap, Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import time_in_words
from headrace.pipeline.errors import DataLoss, HeadraceError
from headrace.pipeline.lake.files.stage_files import CantWrite
from headrace.pipeline.lake.staging.aggregates import taken_apart
from headrace.pipeline.lake.staging.stage_resume import begins_at, check_may_divide, rest_of, without_first
from headrace.pipeline.lake.staging.stage_until import before, cut_page, kept_whole
from headrace.pipeline.ports.pages import Pages, RecordPage

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.pipeline.ports.base import Clock

_ZERO = timedelta(0)

Write = Callable[[ShardKey, "pa.RecordBatch"], None]
"""Takes rows of a page for the task's files. Raises CantWrite."""


class Box:
    """The budget of records and bytes that all shards of one task together may still read. While a page is
    requested, its expected size is reserved. So all threads of a task together read at most one page more than
    the budget, unless pages turn out larger than expected.
    """

    def __init__(self, limits: BatchLimits, clock: Clock) -> None:
        self._records = limits.records
        self._bytes = limits.bytes
        self._deadline = clock.monotonic() + limits.seconds
        self._clock = clock
        self._reserved_records = 0
        self._reserved_bytes = 0
        self._changed = Condition()

    @property
    def has_room(self) -> bool:
        return self._records > 0 and self._bytes > 0 and self._clock.monotonic() < self._deadline

    @contextmanager
    def room_for(self, records: int, bytes_: int) -> Iterator[bool]:
        """Reserve the expected size of a page while it is requested. Yields False where nothing may be read any
        more.

        Waits while the pages that other threads request may use up what is left; the part of a reservation that a
        page doesn't need is free again once the page has come.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self.has_room or self.has_unreserved)
            granted = self.has_room
            if granted:
                self._reserved_records += records
                self._reserved_bytes += bytes_
        try:
            yield granted
        finally:
            if granted:
                with self._changed:
                    self._reserved_records -= records
                    self._reserved_bytes -= bytes_
                    self._changed.notify_all()

    @property
    def has_unreserved(self) -> bool:
        return self._records > self._reserved_records and self._bytes > self._reserved_bytes

    def take(self, page: RecordPage) -> None:
        with self._changed:
            self._records -= page.rows
            self._bytes -= page.bytes

    def share(self, fraction: float) -> tuple[int, int]:
        """A fraction of the records and bytes that are left; at least one of each, so that every shard makes
        progress.
        """
        return int(self._records * fraction) + 1, int(self._bytes * fraction) + 1


class ShardReading:
    """The reading of one batch: its place in the shard, and what was read so far. Only one thread at a time uses it."""

    def __init__(self, batch: Batch, pages: Pages, write: Write, *, unpack: bool) -> None:
        self.batch = batch
        self._unpack = unpack
        self.over = False
        self._write = write
        self._wrote = False
        """Whether rows were given to the task's files."""
        self._pages = self._open(pages)
        self._expected = (MOST_RECORDS, MOST_BYTES)
        """Records and bytes of the next page: those of the last page that had records; before it, the most that a page
        can have."""
        self._witness = batch.witness
        """Until this time no record can have left the shard unread."""
        self._noted = batch.witness
        """Until this time no record can have left the shard unread, except in a recorded gap."""
        self._staged = Staged(batch.key, batch.after, batch.after or Position(), unpacked=unpack)

    @property
    def staged(self) -> Staged:
        return self._staged

    def read_on(self, box: Box, *, records: int, bytes_: int) -> None:
        """Read until this shard's share or the task's budget is used up, or there is no more to read."""
        records, bytes_ = self._staged.records + records, self._staged.bytes + bytes_
        try:
            while not self.over and self._staged.records < records and self._staged.bytes < bytes_:
                if not self._read_page(box):
                    return
            if self.over:
                # A reader may hold a connection, which other shards of the task shouldn't wait for.
                self._pages.close()
        except HeadraceError as error:
            self._stop(str(error), data_loss=isinstance(error, DataLoss))
        except (ImportError, CantWrite):
            # The Spark worker lacks a package, or the task's files can't be written: that concerns all shards.
            raise
        except Exception as error:  # noqa: BLE001 - an unexpected error in one shard must not stop the others
            # Only the type is reported, because the text of an unexpected error could quote a record.
            self._stop(
                f"reading {self.batch.key} stopped at an unexpected {type(error).__name__}; records read before it are safe"
            )

    def failed_to_write(self, why: str) -> None:
        """Note that the task's files couldn't be written, so that nothing of this shard was staged: its position
        doesn't move.
        """
        if not self._wrote:
            # The shard has no row in these files, so that what was seen of it stands.
            return
        self._staged = Staged(
            self.batch.key,
            self.batch.after,
            self.batch.after or Position(),
            pages=self._staged.pages,
            error=why,
        )

    def _open(self, pages: Pages) -> Generator[RecordPage]:
        """A generator, so that an error in opening the shard is raised inside read_on, which handles it."""
        yield from pages.pages(self.batch)

    def _read_page(self, box: Box) -> bool:
        """Whether the budget had room for a page. A method of its own, so that the page isn't in memory any more while
        the next is asked for."""
        with box.room_for(*self._expected) as granted:
            if not granted:
                return False
            page = self._next_page(box)
        if page is not None:
            self._judge(page)
        return True

    def _next_page(self, box: Box) -> RecordPage | None:
        page = next(self._pages, None)
        if page is None:
            self.over = True
        else:
            box.take(page)
            if page.rows:
                # The next page of a shard is most likely as large. An empty page tells nothing about the one after it.
                self._expected = page.rows, page.bytes
        return page

    def _judge(self, page: RecordPage) -> None:
        """Take the page's rows, unless records may have been lost before them."""
        was_empty = not page.rows
        at_tip = page.children is None and page.behind <= _ZERO
        until = self.batch.until
        page, is_done = (page, False) if until is None else cut_page(page, until)
        page, rest = self._resumed(page)
        # Kinesis may have deleted records that arrived before this time. The answer's Date has whole seconds.
        forgotten = page.answered + WITHIN_THE_SECOND - self.batch.retention
        if forgotten > self._noted:
            if not self.batch.goes_on:
                raise DataLoss(self._loss_sentence(page))
            if self._staged.rows:
                # The ledger's gap comes before a batch's first row (I13). The next batch starts here and records the
                # gap.
                self.over = True
                return
            # Before the page's rows are taken: the ledger tells of the lost records before it tells of later ones
            # (I13).
            self._note_gap(forgotten)
        # Only an empty page tells that the shard had nothing newer and was still open: Kinesis may give a next iterator
        # with the last records of a closed shard, and tell the end in the next answer.
        self._take(page, rest, seen_at=(page.looked or page.answered) if at_tip and was_empty else None)
        # Where the page had the record at the position again and nothing else, the next page tells whether there is
        # nothing newer. Else no wave would ever see that of a quiet shard whose last record is an aggregate.
        is_only_again = not was_empty and not page.rows
        self.over = (at_tip and not is_only_again) or page.children is not None or is_done
        if is_done and until is not None and not until.ended:
            self._staged = replace(self._staged, upto=until, iterator=None)

    def _resumed(self, page: RecordPage) -> tuple[RecordPage, pa.RecordBatch | None]:
        """The page, and apart from it the rows that are left of the record at the position, where the page begins with
        that record."""
        after = self._staged.upto
        if page.records is None or not after.reads_again or not begins_at(page, after):
            return page, None
        rest = rest_of(page.records.slice(0, 1), after, self.batch.hash_range)
        if rest is None:
            # From here on the position is at the end of a record.
            self._staged = replace(self._staged, upto=replace(after, inside=False))
            return without_first(page), None
        # A reading that ends at a position is a window's, which has a table of its own.
        check_may_divide(self.batch.key, after, unpack=self._unpack or self.batch.until is not None)
        return replace(page, records=page.records.slice(1) if page.rows > 1 else None), rest

    def _take(self, page: RecordPage, rest: pa.RecordBatch | None, *, seen_at: datetime | None) -> None:
        """Keep a page, or the part of it that the batch still wants.

        `seen_at`: when the answer came, if it shows that the shard had nothing newer and was still open.
        """
        was, witness = self._staged, _latest(self._witness, page.last_arrival, seen_at)
        rows, last_sub = self._write_rows(page, rest)
        # Between the writing and the line of the manifest nothing can fail: rows in a file that the line doesn't count
        # would land and be read again.
        self._staged = replace(
            was,
            upto=_position(
                was.upto, page, last_sub=last_sub, seen_at=seen_at or was.upto.seen, witness=witness
            ),
            rows=was.rows + rows,
            records=was.records + page.rows,
            bytes=was.bytes + page.bytes,
            first_arrival=was.first_arrival or page.first_arrival,
            last_arrival=page.last_arrival or was.last_arrival,
            behind=page.behind,
            pages=was.pages + 1,
            iterator=page.iterator,
            children=page.children or (),
        )
        self._witness, self._noted = witness, max(self._noted, witness)

    def _write_rows(self, page: RecordPage, rest: pa.RecordBatch | None) -> tuple[int, int]:
        """Write the page's rows after those that are left of the record at the position. Returns the number of rows,
        and the sub-sequence number of the last one."""
        rows = last_sub = 0
        try:
            for piece in self._parts(page, rest):
                self._wrote = True
                self._write(self.batch.key, piece)
                rows, last_sub = rows + len(piece), piece["sub_sequence_number"][-1].as_py()
        except Exception as error:
            # A part of the page may be in the files, and must not land without the rest.
            if rows and not isinstance(error, CantWrite):
                raise CantWrite(error) from error
            raise
        return rows, last_sub

    def _parts(self, page: RecordPage, rest: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        return before(self._all_parts(page, rest), self.batch.until)

    def _all_parts(self, page: RecordPage, rest: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        if rest is not None:
            yield rest
        if page.records is None:
            return
        if self._unpack:
            yield from taken_apart(page.records, self.batch.hash_range)
        else:
            yield from kept_whole(page.records, self.batch.until, self.batch.hash_range)

    def _note_gap(self, until: datetime) -> None:
        self._staged = replace(self._staged, gap=Gap(self._witness, until))
        self._noted = until

    def _stop(self, why: str, *, data_loss: bool = False) -> None:
        self.over = True
        self._staged = replace(self._staged, error=why, data_loss=data_loss)

    def _loss_sentence(self, page: RecordPage) -> str:
        gap = page.answered - self._witness
        return (
            f"{self.batch.key}: records may have left the stream unread. The stream keeps records for {time_in_words(self.batch.retention)}, "
            f"but only those before {self._witness.isoformat()} were read, which is {gap} ago. The position doesn't move. "
            f"Record the gap with `headrace skip --shard {self.batch.key.shard_id}` or set on_data_loss: continue"
        )


def _position(
    was: Position, page: RecordPage, *, last_sub: int, seen_at: datetime | None, witness: datetime
) -> Position:
    """The position after the page. `last_sub`: the sub-sequence number of the page's last row."""
    if page.last_sequence is not None:
        was = Position(page.last_sequence, last_sub, arrival=page.last_arrival)
    if page.children is not None:
        # `seen` of an ended shard is the time from which its children are judged for lost records. For a shard with
        # records it is the arrival of the last one, or the time when the shard was read up to its newest record. For a
        # shard that never had a record it is the batch's own start. It is never the end of a gap: the children may have
        # lost records in the same time, and have to find that out.
        return replace(
            was,
            seen=_latest(witness, seen_at) if was.sequence is None else seen_at,
            ended=True,
            children=tuple(c.shard_id for c in page.children),
        )
    return replace(was, seen=seen_at, gap_accepted=False)


def _latest(first: datetime, *times: datetime | None) -> datetime:
    return max((first, *(t for t in times if t is not None)))
