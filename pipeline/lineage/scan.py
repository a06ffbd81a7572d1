"""Reads the ledgers of the lineage table. The Parquet reader leaves out rows that aren't asked for, and skips
whole row groups by their bounds (`headrace.pipeline.lineage.content.sorted_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import StructType

from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
from headrace.pipeline.core.ledger.rows import DERIVED, DROPPED, EMPTY, RANGE
from headrace.pipeline.core.shards.sort_texts import number_texts
from headrace.pipeline.lineage.decode import LineageDecoder
from headrace.pipeline.lineage.join import joined
from headrace.pipeline.lineage.schema import SCHEMA

TRUE: BooleanExpression = AlwaysTrue()

_FOR_QUERIES = ("stream", "after.sort_key", "upto.sort_key")
"""What other columns tell as well."""
_READ = tuple(
    name
    for name in SCHEMA.column_names
    if name not in _FOR_QUERIES
    and ".element" not in name
    and not isinstance(SCHEMA.find_field(name).field_type, StructType)
)
"""The columns of which ledgers are made. Of a struct its fields are named one by one."""
_AT_ONCE = 8_192
"""Rows of which objects are made at once."""
_FEW_SHARDS = 4
"""Up to this many shards count as few, whose ranges may be read from all files at once."""


def read_ledgers(table: Table, query: RangeFilter) -> Iterator[LedgerEntry | Lost]:
    """The ledgers that the query asks for, oldest first, and maybe some more ranges, which `query.of` leaves out."""
    condition = row_filter(query)
    decoder = LineageDecoder()
    names = set(table.schema().column_names)
    columns = table.schema().select(*(name for name in _READ if name in names))
    reader = ArrowScan(table.metadata, table.io, columns, condition)
    tasks = list(table.scan(condition).plan_files())
    # pyiceberg reads all files that it is asked for at once, and has their rows in memory. Where these are few, that is
    # faster.
    if query.joining is not None:
        rows = joined(_one_by_one(reader, table, tasks), query.joining)
        if rows is not None:
            for batch in rows.to_batches(_AT_ONCE):
                decoder.add(batch)
            return decoder.pages.entries()
    are_few = query.shards is not None and len(query.shards) <= _FEW_SHARDS
    for portion in [tasks] if are_few else [[task] for task in tasks]:
        for batch in reader.to_record_batches(portion):
            decoder.add(batch)
    return decoder.pages.entries()


def _one_by_one(reader: ArrowScan, table: Table, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, of which some row groups at a time are in memory."""
    for task in tasks:
        deletes = _read_all_delete_files(table.io, [task])
        # What `to_record_batches` collects for each file as a whole.
        yield from reader._record_batches_from_scan_tasks_and_deletes([task], deletes)  # noqa: SLF001


def row_filter(query: RangeFilter) -> BooleanExpression:
    sequence = Reference("snapshot_sequence")
    snapshots = TRUE if query.upto is None else LessThanOrEqual(term=sequence, value=literal(query.upto))
    if query.above is not None:
        snapshots = And(snapshots, GreaterThan(term=sequence, value=literal(query.above)))
    if query.has_all_ranges:
        return snapshots
    without_range = Not(_is("entry", RANGE, DERIVED, DROPPED, EMPTY))
    shards = _of_shards(query)
    ranges = And(
        _is("entry", RANGE, DERIVED), shards, _of_kinds(query), _of_number(query), _of_arrival(query)
    )
    return And(snapshots, Or(without_range, And(_is("entry", DROPPED), shards), ranges))


def _of_shards(query: RangeFilter) -> BooleanExpression:
    stream = TRUE if query.stream is None else _is("stream", query.stream)
    return And(stream, TRUE if query.shards is None else _is("shard_id", *query.shards))


def _of_kinds(query: RangeFilter) -> BooleanExpression:
    if query.kinds is None:
        return TRUE
    return Or(_is("entry", DERIVED), _is("kind", *query.kinds))


def _of_number(query: RangeFilter) -> BooleanExpression:
    if query.number is None:
        return TRUE
    first, behind = number_texts(query.number)
    after = Reference("after.sort_key")
    begins_before = Or(IsNull(term=after), LessThan(term=after, value=literal(behind)))
    return And(GreaterThanOrEqual(term=Reference("upto.sort_key"), value=literal(first)), begins_before)


def _of_arrival(query: RangeFilter) -> BooleanExpression:
    if query.arrived is None:
        return TRUE
    first = Reference("first_arrival")
    since, before = (literal(arrival.isoformat()) for arrival in query.arrived)
    return And(GreaterThanOrEqual(term=first, value=since), LessThan(term=first, value=before))


def _is(column: str, *texts: str) -> BooleanExpression:
    return In(term=Reference(column), values={literal(str(text)) for text in texts})
