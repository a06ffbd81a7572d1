"""`headrace lineage --rebuild`: makes the lineage table anew, from everything that still shows the lake table's
history.

1. Ledgers of main's snapshots: in the current metadata, or in the older metadata files that the metadata log names.
2. Ledgers that only the lineage table has any more. So a rebuild never loses one.
3. Rows of the lake table that no ledger accounts for: ranges of an unknown run are derived from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost
from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.core.ledger.rows import Row, lineage_rows_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.history import main_of
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.plain_read import entry_of, time_of
from headrace.pipeline.lake.table.position_chain import Link
from headrace.pipeline.lake.table.remains import with_landed_form
from headrace.pipeline.lineage.derived import Span, SpanCollector, StretchRows, derived, stretch_of
from headrace.pipeline.lineage.recorded import recorded_of
from headrace.pipeline.lineage.table import (
    Content,
    IcebergLineage,
    Look,
    as_arrow,
    lost_below,
    lost_pick,
)

_COLUMNS = ("stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number", "arrival_ts")


_PORTION = 2_000
"""Rows of which dictionaries are in memory at once."""
_FILE = 50_000
"""Rows of one file, which are in memory as columns."""


def rebuild(lineage: IcebergLineage, *, at_once: int = _FILE) -> Recorded:
    """Write the whole lineage table anew, in one commit. `at_once`: rows of one file, whose ledgers are in memory
    together.
    """

    def decide(look: Look, table: Table) -> Content:
        written = _Writing(lineage, table, at_once)
        spans, for_holes = SpanCollector(), list[LedgerEntry | Lost]()
        # Ledger by ledger into files: a history of months doesn't fit into memory at once.
        for entry in _entries(lineage, look, table, at_once):
            spans.add(entry)
            if isinstance(entry, Lost):
                for_holes.append(entry)
                continue
            if apart := _of_aggregates(entry):
                for_holes.append(apart)
            written.add(entry)
        lost = any(isinstance(entry, Lost) for entry in for_holes)
        lost_parts = _derived(lineage, look, for_holes, spans.spans()) if lost else ()
        for part in lost_parts:
            written.add(part)
        with asking(f"the lineage table {lineage.identifier}"):
            # All in one commit: a reader sees the old ledgers or the new ones, and never a part of them.
            replaced = [task.file for task in table.scan().plan_files()]
        files, counts = written.end()
        recorded = Recorded(*look.at_head(), counts.ranges, counts.snapshots, counts.gaps)
        return Content(as_arrow([], table), replaced, recorded, files)

    _, recorded = lineage.commit(decide)
    return recorded


def _of_aggregates(entry: LedgerEntry) -> LedgerEntry | None:
    ranges = tuple(recorded for recorded in entry.page.ranges if recorded.kind is Kind.UNPACKED)
    return replace(entry, page=LedgerPage(ranges)) if ranges else None


def _derived(
    lineage: IcebergLineage,
    look: Look,
    entries: list[LedgerEntry | Lost],
    spans: Mapping[ShardKey, tuple[Span, ...]],
) -> Iterator[Lost]:
    """The lost parts with the ranges that are made of rows of the lake table."""
    rows = _rows_in_holes(lineage.lake, look.lake, spans)
    return (entry for entry in derived(entries, spans, rows) if isinstance(entry, Lost))


class _Writing:
    """Writes ledgers to files as they come."""

    def __init__(self, lineage: IcebergLineage, table: Table, at_once: int) -> None:
        self._lineage, self._table, self._at_once = lineage, table, at_once
        self._rows: list[Row] = []
        self._columns: list[pa.Table] = []
        self._files: list[DataFile] = []
        self._told = Recorded()

    def add(self, entry: LedgerEntry | Lost) -> None:
        self._rows += lineage_rows_of(entry)
        if len(self._rows) >= min(_PORTION, self._at_once):
            self._to_columns()
        if sum(map(len, self._columns)) >= self._at_once:
            self._to_file()

    def end(self) -> tuple[tuple[DataFile, ...], Recorded]:
        """All files, and what their rows tell: how many ranges, snapshots and gaps there are."""
        self._to_columns()
        self._to_file()
        return tuple(self._files), self._told

    def _to_columns(self) -> None:
        if self._rows:
            self._columns.append(as_arrow(self._rows, self._table))
            self._rows = []

    def _to_file(self) -> None:
        if not self._columns:
            return
        rows, self._columns = pa.concat_tables(self._columns), []
        # The ledger of a snapshot is never divided, so that its snapshot counts once.
        own, before = recorded_of(rows), self._told
        self._told = replace(
            before,
            ranges=before.ranges + own.ranges,
            snapshots=before.snapshots + own.snapshots,
            gaps=before.gaps + own.gaps,
        )
        self._files += self._lineage.written(self._table, rows)


def _entries(lineage: IcebergLineage, look: Look, table: Table, at_once: int) -> Iterator[LedgerEntry | Lost]:
    """All that is known without the rows, oldest first."""
    links: list[Link] = []
    is_whole = True
    try:
        links.extend(main_of(look.lake))
    except ChainBroken:
        is_whole = False
    links.reverse()

    def stored(above: int | None, upto: int) -> Iterator[LedgerEntry | Lost]:
        return lineage.stored(table, look.tail.cut, RangeFilter(above=above, upto=upto))

    if links and not is_whole:
        oldest = links[0]
        for above, upto in _portions(lineage, table, oldest.sequence - 1, at_once):
            yield from stored(above, upto)
        of_oldest = stored(oldest.sequence - 1, oldest.sequence)
        # What an earlier rebuild called lost stays lost, although the table looks whole from there
        # on since.
        was_lost = any(isinstance(entry, Lost) and entry.snapshot == oldest.snapshot for entry in of_oldest)
        if look.tail.broken or was_lost:
            yield lost_below(oldest)
    yield from _of_main(lineage.lake, links, stored)


def _portions(
    lineage: IcebergLineage, table: Table, upto: int, at_once: int
) -> Iterator[tuple[int | None, int]]:
    """Sequence numbers between which the table has the ledgers of about one file, up to this one."""
    with asking(f"the lineage table {lineage.identifier}"):
        rows_below = table.scan(
            f"snapshot_sequence <= {upto}", selected_fields=("snapshot_sequence",)
        ).to_arrow()
    counts = (
        rows_below.group_by("snapshot_sequence").aggregate([([], "count_all")]).sort_by("snapshot_sequence")
    )
    above: int | None = None
    rows = 0
    columns: list[list[Any]] = [counts[name].to_pylist() for name in ("snapshot_sequence", "count_all")]
    for sequence, count in zip(*columns, strict=True):
        rows += count
        if rows >= at_once:
            yield above, sequence
            above, rows = sequence, 0
    if rows:
        yield above, upto


def _of_main(
    lake: IcebergTable, links: Iterable[Link], stored: Callable[[int, int], Iterator[LedgerEntry | Lost]]
) -> Iterator[LedgerEntry | Lost]:
    for link in links:
        if link.picked:
            yield lost_pick(link)
        elif link.ours:
            try:
                yield entry_of(link, lake)
            except ChainBroken as error:
                why = f"the ledger of snapshot {link.snapshot} is lost: {error}"
                stored_entries = (
                    entry
                    for entry in stored(link.sequence - 1, link.sequence)
                    if isinstance(entry, LedgerEntry) and entry.snapshot == link.snapshot
                )
                yield next(stored_entries, None) or Lost(link.snapshot, link.sequence, time_of(link), why)


def _rows_in_holes(
    lake: IcebergTable, table: Table, spans: Mapping[ShardKey, tuple[Span, ...]]
) -> Mapping[ShardKey, list[StretchRows]]:
    """The rows that no span accounts for. It reads the sequence numbers of all rows."""
    arns = {key.stream.name: key.stream.arn for key in spans}
    with suppress(ChainBroken):  # the streams of the ledgers have to do then
        arns |= {stream.name: stream.arn for stream in lake.load().positions.streams()}
    by_stretch: dict[tuple[ShardKey, int], StretchRows] = {}
    with asking(f"the lake table {lake.identifier}"):
        for batch in table.scan(selected_fields=_COLUMNS).to_arrow_batch_reader():
            rows = with_landed_form(pa.Table.from_batches([batch]))
            for stream, epoch, shard, number, sub, arrival in zip(
                *(rows[c].to_pylist() for c in _COLUMNS), strict=True
            ):
                if stream not in arns:
                    continue
                key = ShardKey(StreamId(arns[stream], epoch), shard)
                stretch = stretch_of(int(number), spans.get(key, ()))
                if stretch is not None:
                    row = StretchRows(stretch, 1, int(number), arrival, arrival, sub or 0, 0 if sub else 1)
                    by_stretch[key, stretch] = _together(by_stretch.get((key, stretch)), row)
    by_key: dict[ShardKey, list[StretchRows]] = {}
    for (key, _), stretch_rows in by_stretch.items():
        by_key.setdefault(key, []).append(stretch_rows)
    return by_key


def _together(rows: StretchRows | None, row: StretchRows) -> StretchRows:
    if rows is None:
        return row
    arrivals = [
        arrival
        for arrival in (rows.first_arrival, rows.last_arrival, row.last_arrival)
        if arrival is not None
    ]
    last, last_sub = max((rows.last_sequence, rows.last_sub), (row.last_sequence, row.last_sub))
    return StretchRows(
        rows.stretch,
        rows.rows + 1,
        last,
        min(arrivals, default=None),
        max(arrivals, default=None),
        last_sub,
        # A record is counted by its first row. It has none if another program has read the first user records of an
        # aggregate.
        rows.records + row.records,
    )
