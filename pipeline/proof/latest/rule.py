"""Checks that the row of each key in a table of the latest rows is the one that its landed records make. Pure
functions.

Rows come sorted by `key`, `epoch`, `sort_key` and `kind`: for each key its records of the lake table, those of
them that are in the quarantine table, and its rows in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

from headrace.pipeline.proof.latest.facts import LatestCounts

_FIELDS: Mapping[str, Any] = {
    "key": pa.binary(),
    "epoch": pa.int64(),
    "sort_key": pa.string(),
    "kind": pa.int8(),
    "deletes": pa.bool_(),
}
ROWS = pa.schema(_FIELDS)


class RowKind(IntEnum):
    """The table that a row is from: the lake table, the quarantine table, or the table of the latest rows. Rows of one record
    are sorted in this order."""

    LANDED = 0
    ASIDE = 1
    LATEST = 2


_Order = tuple[int, str]


@dataclass(slots=True)
class _Key:
    """What was seen of one key so far."""

    landed: tuple[_Order, bool] | None = None
    """The latest landed record that wasn't set aside, and whether it deletes."""
    before: tuple[_Order, bool] | None = None
    rows: int = 0
    newest: _Order | None = None
    """The latest row of the table."""

    def add(self, order: _Order, kind: int, *, deletes: bool) -> None:
        if kind == RowKind.LATEST:
            self.rows, self.newest = self.rows + 1, order
        elif kind == RowKind.LANDED:
            self.before, self.landed = self.landed, (order, deletes)
        elif self.landed is not None and self.landed[0] == order:
            self.landed = self.before

    def counts(self) -> LatestCounts:
        latest, deletes = self.landed or (None, True)
        stale = self.newest is not None and latest is not None and self.newest < latest
        missing = not self.rows and not deletes
        wrong = latest if stale or missing else self.newest if self.rows > 1 else None
        first = () if wrong is None else (wrong[1].split(":")[1],)
        return LatestCounts(int(self.rows > 0), max(0, self.rows - 1), int(stale), int(missing), first)


def latest_counts(batches: Iterable[pa.RecordBatch]) -> LatestCounts:
    """How many of these rows, with the columns ROWS, are right and wrong. Without the landed records among them,
    no row counts as stale or missing.
    """
    total, of_key, key = LatestCounts(), _Key(), None
    for batch in batches:
        columns: list[Any] = [batch[name].to_pylist() for name in ROWS.names]
        for row_key, epoch, sort_key, kind, deletes in zip(*columns, strict=True):
            if row_key != key:
                total, of_key, key = total.plus(of_key.counts()), _Key(), row_key
            of_key.add((epoch, sort_key), kind, deletes=deletes)
    return total.plus(of_key.counts())
