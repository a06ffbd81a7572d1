"""Shards whose end Headrace once landed, and the lake table has lost. Their rows say SHARD_END, so that no run reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.start_of_reading import why_rolled_back
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import ends_lost, is_of_this_life, rows_of_stream
from headrace.pipeline.duties.streams.lake_table import ensure_table
from headrace.pipeline.duties.streams.streams import stream_as_written
from headrace.pipeline.errors import Terminal, Throttled
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.model import Settings


def lost_ends(
    stream: StreamId, rows: Iterable[Lease], positions: Positions, source: ShardSource
) -> tuple[tuple[str, ...], tuple[Shard, ...]]:
    """The shards whose end the table has lost, and all shards of the stream where the rows alone couldn't tell that.
    `rows`: all rows of the stream."""
    rows = tuple(rows)
    if not ends_lost(stream, rows, positions):
        return (), ()
    # A run ends the row of a shard of which a descendant has a position. The way to this descendant may lead over a shard that was
    # closed before the origin, which has no row and isn't in scope: only the listing of all shards shows it.
    every = source.list_shards(stream)
    return ends_lost(stream, rows, positions, listed=every), every


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEnds:
    """Looks for lost ends among the shards that a run is to read by name."""

    settings: Settings
    leases: LeaseStore
    source: ShardSource
    table: LandingTable

    def among(self, rows: Iterable[Lease]) -> dict[str, str]:
        """Lease key -> why the shard can't be read, for those of these ended rows whose end the table has lost. The rows
        were read before, so that the table is no older than they are."""
        landed = [row for row in rows if row.landed is not None and row.landed.is_end]
        if not landed:
            return {}
        ensure_table(self.table, self.leases, name=self.settings.landing.table)
        positions = self.table.load().positions
        # Mostly the table has the ends, and nobody has to ask Kinesis.
        unsure = [row for row in landed if not _has_end(row, positions)]
        if not unsure or positions.by_rows:
            return {}
        all_rows = self.leases.scan().leases
        reasons: dict[str, str] = {}
        for name in dict.fromkeys(row.stream for row in unsure):
            rows_of_name = [row for row in unsure if row.stream == name]
            try:
                reasons |= self._of_stream(rows_of_name, positions, all_rows)
            except (Terminal, Throttled) as error:  # of this stream alone: the run goes on with the others
                reasons |= {row.key: str(error) for row in rows_of_name}
        return reasons

    def _of_stream(
        self, unsure: list[Lease], positions: Positions, all_rows: Iterable[Lease]
    ) -> dict[str, str]:
        stream = self.source.describe(stream_as_written(self.settings, unsure[0])).stream
        lost, _ = lost_ends(stream, rows_of_stream(stream, all_rows), positions, self.source)
        reasons: dict[str, str] = {}
        for row in unsure:
            if row.shard_id in lost and is_of_this_life(stream, row):
                key = ShardKey(stream, row.shard_id)
                reasons[row.key] = why_rolled_back(row, key, positions.of(key))
        return reasons


def _has_end(row: Lease, positions: Positions) -> bool:
    return any(
        positions.has_ended(ShardKey(life, row.shard_id))
        for life in positions.streams()
        if is_of_this_life(life, row)
    )
