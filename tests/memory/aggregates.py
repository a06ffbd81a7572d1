"""Rows of the lake table in memory whose payload begins as an aggregate of the Kinesis Producer Library does."""

from __future__ import annotations

from typing import NamedTuple

from headrace.pipeline.core.shards.stream import ShardKey
from tests.memory.source import MemoryRecord

StagedRow = tuple[ShardKey, int]
"""A row as a test knows it: its shard, and its sequence number + sub-sequence number (see `MemoryRecord.users`)."""


class WholeRow(NamedTuple):
    """A row that looks like an aggregate which nobody has tried to take apart. Its first two values are those of a `StagedRow`.

    The ports tell such rows from all others, as their payloads do. They go by `is_user` nowhere: only the ledgers tell whether a row was
    taken apart before.
    """

    key: ShardKey
    number: int
    users: int
    """The user records that taking it apart gives. 0: it isn't a right aggregate, and stays one row."""
    inner: int | None = None
    """As `MemoryRecord.inner`."""
    is_user: bool = False
    """For judges: the row is itself a user record, whose payload is an aggregate."""

    def taken_apart(self) -> tuple[StagedRow | WholeRow, ...]:
        """The rows that stand in its place afterwards."""
        if not self.users:
            # It has the reason then (`decode_error`), by which it is told from those that nobody has looked at.
            return ((self.key, self.number),)
        rows: list[StagedRow | WholeRow] = [(self.key, self.number + sub) for sub in range(self.users)]
        if self.inner is not None:
            rows[0] = WholeRow(self.key, self.number, self.inner, is_user=True)
        return tuple(rows)

    def numbers(self) -> range:
        """The numbers of the user records that it stands for."""
        return range(self.number, self.number + (1 if self.is_user else max(1, self.users)))


LandedRow = StagedRow | WholeRow


def row_of(key: ShardKey, record: MemoryRecord) -> LandedRow:
    """The row of a record that lands as it came."""
    if record.is_broken:
        return WholeRow(key, record.sequence, 0)
    if record.users > 1:
        return WholeRow(key, record.sequence, record.users, record.inner)
    return key, record.sequence


def numbers_of(row: LandedRow) -> range:
    """The numbers of the user records that a row stands for."""
    return row.numbers() if isinstance(row, WholeRow) else range(row[1], row[1] + 1)
