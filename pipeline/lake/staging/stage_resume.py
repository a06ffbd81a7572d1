"""The first page of a batch whose position is at a record that may have more user records (`Position.reads_again`).

position (100, sub 3)        a record 100 with the user records 0 ... 5: the rows of 4 and 5 are left
page 100, 101, 102           a record 100 of which nothing is left: as if the page began with 101
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl.deaggregate import EVERYTHING, NOT_AN_AGGREGATE
from headrace.pipeline.lake.staging.aggregates import rows_with, unpacked_of, user_rows
from headrace.pipeline.ports.pages import RecordPage


def begins_at(page: RecordPage, after: Position) -> bool:
    """Whether the page begins with the record at the position."""
    first = None if page.records is None else page.records["sequence_number"][0].as_py()
    return first is not None and int(first) == after.sequence


def without_first(page: RecordPage) -> RecordPage:
    """The page as if it began with its second record."""
    if page.records is None or page.rows < 2:
        return replace(
            page, records=None, rows=0, bytes=0, last_sequence=None, first_arrival=None, last_arrival=None
        )
    return replace(
        page,
        records=page.records.slice(1),
        rows=page.rows - 1,
        bytes=page.bytes - len(page.records["data"][0].as_py()),
        first_arrival=page.records["arrival_ts"][1].as_py(),
    )


def rest_of(record: pa.RecordBatch, after: Position, shard: HashRange | None) -> pa.RecordBatch | None:
    """The user records after the position `after` in the record at that position; None where none are left.
    `record`: a page with this record alone.
    """
    unpacked = unpacked_of(record, 0, shard or EVERYTHING)
    if unpacked.broken is None:
        rest = tuple(user for user in unpacked.records if user.sub > after.sub)
        return user_rows(record, rest) if rest else None
    # The program that wrote the checkpoint may have read a part of it; all of it, if it isn't an aggregate at all. A
    # position of Headrace's own is always at the end of a record.
    if not after.inside or unpacked.broken == NOT_AN_AGGREGATE:
        return None
    return rows_with(
        record,
        np.zeros(1, np.int64),
        data=record["data"],
        sub=pa.array([after.sub + 1]),
        keys=record["partition_key"],
        errors=pa.array([unpacked.broken]),
    )


def check_may_divide(key: ShardKey, after: Position, *, unpack: bool) -> None:
    """Refuse to land a part of an aggregate in a table that keeps aggregates whole."""
    if not unpack:
        raise WrongShape(
            f"the position of {key} is {after}, inside an aggregate of which another program has read a part, and this table keeps "
            "aggregates whole. Nothing of the shard was landed; set `landing.aggregates: unpack`, or skip the rest of the aggregate "
            "(`headrace skip --to` a later record)"
        )
