"""The end of a reading that has to stop at a position (`Batch.until`): later records are left out, even where the
last page has them.

until (100, sub 3)     of a record 100 with the user records 0 ... 5 the rows of 0 ... 3 are taken
until an END           all records are taken, and the reading ends with the shard

An aggregate within which the reading ends or begins is taken apart even where aggregates are kept whole: as a
whole it would be read twice, before the position and after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.encoding.plain_arrow import bytes_of
from headrace.pipeline.kcl.deaggregate import EVERYTHING
from headrace.pipeline.lake.files.binary_views import filtered
from headrace.pipeline.lake.staging.aggregates import unpacked_of, user_rows
from headrace.pipeline.ports.pages import RecordPage

_ZERO = timedelta(0)


def cut_page(page: RecordPage, until: Position) -> tuple[RecordPage, bool]:
    """The page without later records, and whether nothing is left to read after it."""
    if until.ended:
        return page, page.children is not None
    # Records that are still to come are later than every record of the lake table, and so than this position.
    is_over = page.children is not None or (not page.rows and page.behind <= _ZERO)
    if until.sequence is None:
        return replace(_first(page, 0), children=None), True
    is_over = is_over or (page.last_sequence is not None and page.last_sequence >= until.sequence)
    if page.records is not None:
        numbers: list[Any] = page.records["sequence_number"].to_pylist()
        page = _first(page, bisect_right(numbers, until.sequence, key=int))
    return replace(page, children=None), is_over


def _first(page: RecordPage, rows: int) -> RecordPage:
    if page.records is None or rows == page.rows:
        return page
    earlier = page.records.slice(0, rows)
    if not rows:
        return replace(
            page, records=None, rows=0, bytes=0, last_sequence=None, first_arrival=None, last_arrival=None
        )
    return replace(
        page,
        records=earlier,
        rows=rows,
        bytes=bytes_of(earlier["data"]),
        last_sequence=int(earlier["sequence_number"][-1].as_py()),
        last_arrival=earlier["arrival_ts"][-1].as_py(),
    )


def before(rows: Iterator[pa.RecordBatch], until: Position | None) -> Iterator[pa.RecordBatch]:
    """The rows of user records up to the position `until`. Later rows may only be of the record at the position
    itself.
    """
    if until is None or until.ended or not until.reads_again:
        yield from rows
        return
    for batch in rows:
        number: Any = batch["sequence_number"]
        sub: Any = batch["sub_sequence_number"]
        is_later: Any = pc.and_(
            pc.equal(number, pa.scalar(str(until.sequence))), pc.greater(sub, pa.scalar(until.sub))
        )
        earlier = filtered(batch, pc.invert(is_later))
        if earlier.num_rows:
            yield earlier


def kept_whole(
    page: pa.RecordBatch, until: Position | None, shard: HashRange | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a page, with each aggregate as one row. Only the aggregate within which the reading ends is
    taken apart.
    """
    last = page.slice(len(page) - 1)
    if until is None or until.ended or not until.reads_again or not _is_at(last, until):
        yield page
        return
    unpacked = unpacked_of(last, 0, shard or EVERYTHING)
    if unpacked.broken is not None or all(user.sub <= until.sub for user in unpacked.records):
        yield page
        return
    if len(page) > 1:
        yield page.slice(0, len(page) - 1)
    yield user_rows(last, unpacked.records)


def _is_at(record: pa.RecordBatch, position: Position) -> bool:
    return bool(record["sequence_number"][0].as_py() == str(position.sequence))
