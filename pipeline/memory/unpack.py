"""Taking aggregates of the lake table apart in memory. The contract tests check this port and the one on Iceberg in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.core.parse_values import Bound, Parsed, ShardCount, SourceFile
from pipeline.core.shard import HashRange
from pipeline.core.stream import ShardKey, StreamId
from pipeline.lake_ports import Unpacker
from pipeline.memory.aggregates import LandedRow, WholeRow
from pipeline.memory.parse import MemorySurveyor, TypedRow
from pipeline.memory.table import MemoryTable


@dataclass(frozen=True, kw_only=True)
class MemoryUnpacker(MemorySurveyor, Unpacker):
    """`source`: the rows of the lake table. User records of other shards, which KCL drops, aren't known here: hash keys have no effect."""

    table: MemoryTable

    def unpack(
        self,
        files: Sequence[SourceFile],
        selected: Sequence[Bound],
        streams: Sequence[StreamId],
        shards: Mapping[ShardKey, HashRange],
    ) -> Parsed:
        bounds = {each.key: each for each in selected if each.key.stream in streams}
        rows: list[LandedRow] = []
        counts: dict[ShardKey, ShardCount] = {}
        for file in files:
            for row in self.source.rows[file.path]:
                is_one = isinstance(row, WholeRow) and self._is_in(row, bounds.get(row.key))
                made = row.taken_apart() if is_one else (row,)
                rows += made
                parsed = len(made) * is_one
                count = ShardCount(row[0], parsed, len(made) - parsed)
                counts[count.key] = counts.get(count.key, ShardCount(count.key)).plus(count)
        return Parsed(
            self.source.write(self.table.staging_spec().location, rows),
            counts=tuple(counts[key] for key in sorted(counts)),
        )

    def _is_in(self, row: WholeRow, bound: Bound | None) -> bool:
        return bound is not None and bool(self.within([TypedRow(row.key, row.number)], bound))
