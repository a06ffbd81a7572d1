"""The reading of one shard of a stream by one Spark task, as a plain function: pages of Kinesis become rows of a
data frame.

    KinesisPages ──> pages without records outside of the times ──> ShardReading: losses, aggregates, ends ──> rows

Pages are checked by the code of staging (`headrace.pipeline.lake.staging.stage_read`), so that a data frame has
the rows that the lake table would have got.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Staged
from headrace.pipeline.core.words.words import time_in_words
from headrace.pipeline.errors import DataLoss, Transient, Unknown
from headrace.pipeline.lake.files.allocators import keep_memory
from headrace.pipeline.lake.files.binary_views import filtered, without_views
from headrace.pipeline.lake.files.sort_key import SORT_KEY, sort_keys
from headrace.pipeline.lake.staging.stage_read import Box, ShardReading, Write
from headrace.pipeline.ports.pages import Pages, RecordPage
from headrace.pipeline.source.columns import in_form

if TYPE_CHECKING:
    from headrace.pipeline.ports.base import Clock

_BOUNDLESS = BatchLimits(2**62, 2**62, float("inf"))
"""A data frame's range has bounds of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPart:
    """The part of a query that one task reads: a range of one shard. It can be pickled."""

    batch: Batch
    """With `goes_on`, records that have left the stream are passed over."""
    until: datetime
    """Records that arrived before this time."""
    since: datetime | None = None
    """Records that arrived at this time or later."""
    children: frozenset[str] | None = None
    """The shard's children that other parts read. None: records of this shard alone are wanted."""
    unpack: bool = True
    generation: int = 0


def read_shard(part: ShardPart, pages: Pages, clock: Clock | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of the part. Raises an error where records were lost, unless the query's options say to go on."""
    keep_memory()
    box, batch = Box(_BOUNDLESS, clock or SystemClock()), part.batch
    while True:
        timed, rows = _PagesInTime(pages, part), list[pa.RecordBatch]()
        reading = ShardReading(batch, timed, _adding_to(rows), unpack=part.unpack)
        while not reading.over:
            reading.read_on(box, records=1, bytes_=1)
            for page_rows in rows:
                yield from _in_form(page_rows, part.generation)
            rows.clear()
        staged = reading.staged
        _check(part, staged)
        # Not `reading.over`, which says only that this reading has ended: it ends as well where
        # records left the stream between two pages.
        if timed.is_done(staged):
            _check_reached(part, timed)
            _check_children(part, staged.upto.children)
            return
        # Records have left the stream between two pages: the rest begins with a loss, as a batch of a wave does.
        batch = replace(batch, after=staged.upto, witness=staged.upto.witness or batch.witness)


def _adding_to(rows: list[pa.RecordBatch]) -> Write:
    return lambda _, page_rows: rows.append(page_rows)


def _in_form(rows: pa.RecordBatch, generation: int) -> Iterator[pa.RecordBatch]:
    plain = without_views(rows)
    keys: Any = sort_keys(plain["sequence_number"], plain["sub_sequence_number"])
    return in_form(
        plain.append_column(SORT_KEY, keys), pa.repeat(pa.scalar(generation, pa.int32()), len(plain))
    )


def _check(part: ShardPart, staged: Staged) -> None:
    if staged.error is None:
        return
    if staged.data_loss:
        raise DataLoss(
            f"records of {part.batch.key} may have left the stream before this data frame has read them: the stream keeps "
            f"records for {time_in_words(part.batch.retention)}. Nothing was changed. Choose a later `from`, or set the option "
            "on_data_loss to continue and read the option view=losses too, which names what is missing"
        )
    raise Transient(
        f"{staged.error}. The data frame would lack the rest of this shard, so that the query failed"
    )


def _check_reached(part: ShardPart, pages: _PagesInTime) -> None:
    last = part.batch.until
    if last is None or last.sequence is None or pages.has_reached(last.sequence):
        return
    raise Unknown(
        f"{part.batch.key} has no record with the sequence number {last.sequence} or a later one yet. Nothing was changed; "
        "choose a lower upto_sequence, or run the query again once the record is there"
    )


def _check_children(part: ShardPart, children: tuple[str, ...]) -> None:
    """Kinesis's list of shards may be late, and its last page of a shard never is."""
    unread = sorted(set(children) - part.children) if part.children is not None else []
    if unread:
        raise Transient(
            f"{part.batch.key} was split or merged into {', '.join(unread)}, which Kinesis's list of shards didn't have when the query was "
            "planned. The data frame would lack their records, so that the query failed; run it again"
        )


class _PagesInTime:
    """Pages of a shard without records that arrived outside of the part's times.

    Arrival times needn't grow from record to record, so that reading goes on for a while after the end.
    """

    def __init__(self, pages: Pages, part: ShardPart) -> None:
        self._pages = pages
        self._part = part
        self._last = -1
        self._count = 0
        self._is_last = False

    def has_reached(self, sequence: int) -> bool:
        return self._last >= sequence

    def is_done(self, staged: Staged) -> bool:
        """Whether no later page can have a record of the part, and the reading has taken all pages so far."""
        return self._is_last and staged.pages == self._count

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        for page in self._pages.pages(batch):
            self._count += 1
            self._last = max(self._last, page.last_sequence or -1)
            # At the tip every record that had arrived by the part's end has been read.
            is_at_end = page.children is not None or page.behind.total_seconds() <= 0
            self._is_last = is_at_end or self._is_past(page) or self._has_all(batch)
            yield self._in_time(page)
            # A minute past the end, since arrival times needn't grow: a record of the range may
            # come behind a later one.
            if self._is_past(page):
                return

    def _is_past(self, page: RecordPage) -> bool:
        return page.last_arrival is not None and page.last_arrival >= self._part.until + APPROXIMATE

    def _has_all(self, batch: Batch) -> bool:
        upto = batch.until
        return upto is not None and upto.sequence is not None and self._last >= upto.sequence

    def _in_time(self, page: RecordPage) -> RecordPage:
        """The numbers and times of the page stay those of all its records: by them the position is told, and losses."""
        if page.records is None:
            return page
        arrivals: Any = page.records["arrival_ts"]
        bounds: Any = pc.min_max(arrivals).as_py()
        since, until = self._part.since, self._part.until
        if bounds["max"] < until and (since is None or bounds["min"] >= since):
            return page
        mask: Any = pc.less(arrivals, pa.scalar(until, arrivals.type))
        if since is not None:
            mask = pc.and_(mask, pc.greater_equal(arrivals, pa.scalar(since, arrivals.type)))
        inside = filtered(page.records, mask)
        # The count stays that of the whole page: an empty page is how Kinesis says that nothing is there.
        return replace(page, records=inside if inside.num_rows else None)
