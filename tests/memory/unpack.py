"""Taking aggregates of the lake table apart in memory. The contract tests check this port and the one on Iceberg in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.values import ApartCount, Bound, Parsed, ShardCount, SourceFile
from headrace.pipeline.windows.ports import Unpacker
from tests.memory.aggregates import LandedRow, WholeRow
from tests.memory.parse import MemorySurveyor, TypedRow
from tests.memory.table import MemoryTable


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
        rows: list[LandedRow] = []
        counts: dict[ShardKey, ShardCount] = {}
        apart: dict[tuple[ShardKey, str], ApartCount] = {}
        for file in files:
            for row in self.source.rows[file.path]:
                bound = self._bound_of(row, selected) if row[0].stream in streams else None
                made = (row,) if bound is None else row.taken_apart()
                rows += made
                count = ShardCount(row[0], aside=1) if bound is None else ShardCount(row[0], parsed=len(made))
                counts[count.key] = counts.get(count.key, ShardCount(count.key)).plus(count)
                if bound is not None:
                    part = ApartCount(bound.key, bound.low, 1, len(made))
                    at = part.key, part.low
                    apart[at] = apart.get(at, ApartCount(*at)).plus(part)
        return Parsed(
            self.source.write(self.table.staging_spec().location, rows),
            counts=tuple(counts[key] for key in sorted(counts)),
            apart=tuple(apart[at] for at in sorted(apart)),
        )

    def _bound_of(self, row: LandedRow, selected: Sequence[Bound]) -> Bound | None:
        """The bound of an aggregate that is to be taken apart."""
        if not isinstance(row, WholeRow):
            return None
        its = (each for each in selected if each.key == row.key)
        return next((each for each in its if self.within([TypedRow(row.key, row.number)], each)), None)
