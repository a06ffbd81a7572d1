"""The rows of a table of the latest rows in memory: what Spark's tasks do, by the product's own rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.latest.decision import decision_of
from headrace.pipeline.typed.latest.rule import KEY_ROWS, LEAVING, LeavesBecause, leaving
from headrace.pipeline.typed.latest_plan import (
    Departures,
    KeyBounds,
    KeyFile,
    KeyPart,
    LatestLook,
    Losing,
    may_have_keys,
)
from headrace.pipeline.typed.ports import LatestRows
from headrace.pipeline.typed.values import Parsed, ShardCount
from tests.memory.parse import MemoryRows, MemoryTyped, TypedRow

_AT_ONCE = 5
"""Rows of a batch, so that those of a key come in several."""


@dataclass(frozen=True, kw_only=True)
class MemoryLatest(LatestRows):
    table: MemoryTyped
    rows: MemoryRows
    key_of: Callable[[TypedRow], str]
    deletes: Callable[[TypedRow], bool]

    def look(self, staged: Sequence[StagedFile]) -> LatestLook:
        state = self.table.load()
        files = (KeyFile(file.path, self._bounds(file.path)) for file in self.table.files_at(state.snapshot))
        of_wave = [self._bounds(file.path) for file in staged]
        return LatestLook(state.positions, may_have_keys(files, of_wave))

    def _bounds(self, path: str) -> KeyBounds:
        keys = [self.key_of(row) for row in self.rows.of(path)]
        return KeyBounds(min(keys), max(keys))

    def decide(self, parts: Sequence[KeyPart]) -> Departures:
        rows = sorted(
            (self._key_row(row, part, n) for part in parts for n, row in enumerate(self.rows.of(part.path))),
            key=lambda row: (row["key"], row["epoch"], row["sort_key"], not row["fresh"]),
        )
        whole = pa.RecordBatch.from_pylist(rows, KEY_ROWS)
        batches = [whole.slice(n, _AT_ONCE) for n in range(0, len(rows), _AT_ONCE)]
        return decision_of(pa.Table.from_batches(leaving(batches), LEAVING), parts)

    def _key_row(self, row: TypedRow, part: KeyPart, number: int) -> dict[str, Any]:
        return {
            "key": self.key_of(row).encode(),
            "epoch": row.key.stream.epoch,
            "sort_key": self.rows.sort_key(row),
            "fresh": part.fresh,
            # A row of the table doesn't delete any more: it is what its record has left.
            "deletes": part.fresh and self.deletes(row),
            "record_key": None,
            "file": part.number,
            "row": number,
        }

    def copy(self, losing: Sequence[Losing], streams: Sequence[StreamId], mark: ShardKey) -> Parsed:
        files: list[StagedFile] = []
        counts: dict[ShardKey, Counter[int]] = {}
        for one in losing:
            whys = dict(zip(one.rows.tolist(), one.whys.tolist(), strict=True))
            rows = self.rows.of(one.path)
            files += self.rows.write(
                self.table.staging_spec().location, [row for n, row in enumerate(rows) if n not in whys]
            )
            if one.fresh:
                for n, why in whys.items():
                    counts.setdefault(rows[n].key, Counter())[why] += 1
        told = (
            ShardCount(key, superseded=of[LeavesBecause.SUPERSEDED], deletions=of[LeavesBecause.DELETION])
            for key, of in sorted(counts.items())
        )
        return Parsed(tuple(files), (), tuple(told))
