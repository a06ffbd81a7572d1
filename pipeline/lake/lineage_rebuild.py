"""`headrace lineage --rebuild`: the lineage table anew, from all that still tells of the lake table's history.

1. Ledgers of main's snapshots: in the current metadata, or in the older metadata files that the metadata log names.
2. Ledgers that only the lineage table has any more. So a rebuild never loses one.
3. Rows of the lake table that no ledger accounts for: ranges of an unknown run are derived from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import pyarrow as pa
from pyiceberg.table import Table

from pipeline.core.derive import Span, StretchRows, derived, spans_of, stretch_of
from pipeline.core.lineage import LedgerEntry, Lost
from pipeline.core.lineage_rows import rows_of
from pipeline.core.recording import Recorded
from pipeline.core.stream import ShardKey, StreamId
from pipeline.errors import ChainBroken
from pipeline.lake.catalog import asking
from pipeline.lake.evidence import with_landed_form
from pipeline.lake.history import main_of
from pipeline.lake.iceberg import IcebergTable
from pipeline.lake.lineage_recorded import recorded_of
from pipeline.lake.lineage_table import Content, IcebergLineage, Look, as_arrow, lost_below, lost_pick
from pipeline.lake.position_chain import Link
from pipeline.lake.read import entry_of, time_of

_COLUMNS = ("stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number", "arrival_ts")


def rebuild(lineage: IcebergLineage) -> Recorded:
    """Write the whole table anew, in one commit."""

    def decide(look: Look, table: Table) -> Content:
        entries = _entries(lineage, look, table)
        if any(isinstance(entry, Lost) for entry in entries):
            spans = spans_of(entries)
            entries = derived(entries, spans, _rows_in_holes(lineage.lake, look.lake, spans))
        rows = as_arrow([row for entry in entries for row in rows_of(entry)], table)
        told = recorded_of(rows)
        with asking(f"the lineage table {lineage.identifier}"):
            replaced = [task.file for task in table.scan().plan_files()]
        recorded = Recorded(*look.at_head(), told.ranges, told.snapshots, told.gaps)
        return Content(rows, replaced, recorded)

    _, recorded = lineage.commit(decide)
    return recorded


def _entries(lineage: IcebergLineage, look: Look, table: Table) -> list[LedgerEntry | Lost]:
    """All that is known without the rows, oldest first."""
    stored = list(lineage.stored(table, look.tail.cut))
    links: list[Link] = []
    is_whole = True
    try:
        links.extend(main_of(look.lake))
    except ChainBroken:
        is_whole = False
    links.reverse()
    known = {entry.snapshot: entry for entry in stored if isinstance(entry, LedgerEntry)}
    of_main = list(_of_main(lineage.lake, links, known))
    if is_whole or not links:
        return of_main
    oldest = links[0]
    below = [entry for entry in stored if entry.sequence < oldest.sequence]
    was_lost = any(isinstance(entry, Lost) and entry.snapshot == oldest.snapshot for entry in stored)
    return [*below, *([lost_below(oldest)] if look.tail.broken or was_lost else ()), *of_main]


def _of_main(
    lake: IcebergTable, links: Iterable[Link], known: Mapping[int, LedgerEntry]
) -> Iterator[LedgerEntry | Lost]:
    for link in links:
        if link.picked:
            yield lost_pick(link)
        elif link.ours:
            try:
                yield entry_of(link, lake)
            except ChainBroken as error:
                why = f"the ledger of snapshot {link.snapshot} is lost: {error}"
                yield known.get(link.snapshot) or Lost(link.snapshot, link.sequence, time_of(link), why)


def _rows_in_holes(
    lake: IcebergTable, table: Table, spans: Mapping[ShardKey, tuple[Span, ...]]
) -> Mapping[ShardKey, list[StretchRows]]:
    """The rows that no span accounts for. It reads the sequence numbers of all rows."""
    arns = {key.stream.name: key.stream.arn for key in spans}
    with suppress(ChainBroken):  # the streams of the ledgers have to do then
        arns |= {stream.name: stream.arn for stream in lake.load().positions.streams()}
    found: dict[tuple[ShardKey, int], StretchRows] = {}
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
                    found[key, stretch] = _together(found.get((key, stretch)), row)
    by_key: dict[ShardKey, list[StretchRows]] = {}
    for (key, _), stretch_rows in found.items():
        by_key.setdefault(key, []).append(stretch_rows)
    return by_key


def _together(rows: StretchRows | None, row: StretchRows) -> StretchRows:
    if rows is None:
        return row
    arrivals = [at for at in (rows.first_arrival, rows.last_arrival, row.last_arrival) if at is not None]
    last, last_sub = max((rows.last_sequence, rows.last_sub), (row.last_sequence, row.last_sub))
    return StretchRows(
        rows.stretch,
        rows.rows + 1,
        last,
        min(arrivals, default=None),
        max(arrivals, default=None),
        last_sub,
        # A record is counted by its first row. It has none if another program has read the first user records of an aggregate.
        rows.records + row.records,
    )
