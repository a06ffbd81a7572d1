"""The lease rows of a processor's application in the place of a lake table: its positions are the checkpoints in
the rows, and nothing is landed.

The engine asks a `LakeTable` where each shard stands before a wave, and commits after it how far the wave has
come. Here the processor itself has moved the rows during the wave, each write on condition of the run's claim. So
a commit decides nothing here: it only reports to the engine what the wave has done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from headrace.pipeline.core.landing.applications import LandedBy
from headrace.pipeline.core.landing.expiry_plan import History
from headrace.pipeline.core.landing.landing import Landing, Proposal, decide_landing
from headrace.pipeline.core.landing.repair_plan import TableEvidence
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.position import Origin, Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life, rows_of_stream
from headrace.pipeline.duties.streams.stream_facts import KnownStreams
from headrace.pipeline.duties.streams.streams import how_to_read, stream_as_written
from headrace.pipeline.errors import HeadraceError, Unknown, Unreachable
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import Committed, TableState
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.processors.application.claimed_rows import ClaimedRows
from headrace.pipeline.processors.application.row_positions import (
    origin_of,
    position_of,
    unknown_arrivals,
)
from headrace.pipeline.settings.model import Settings, StreamSettings


@dataclass(slots=True, kw_only=True)
class RowTable:
    """The port `LakeTable` for a processor's application, which lands nothing: the checkpoints in the lease rows are its
    positions."""

    settings: Settings
    rows: ClaimedRows
    source: ShardSource
    clock: Clock
    streams: KnownStreams = field(init=False)
    arrivals: dict[tuple[ShardKey, int], datetime] = field(default_factory=dict)
    """When the records arrived at which shards stand, as far as this process knows."""
    _state: TableState = field(default=TableState(Positions(), None, origin_allowed=True))
    """As the last look or commit of this process has left it."""

    def __post_init__(self) -> None:
        self.streams = KnownStreams(self.source, self.clock)

    def exists(self) -> bool:
        return True

    def ensure(self, *, create: bool) -> None:
        """Do nothing: the positions are in the lease rows, and no table has to be made for them."""

    def load(self) -> TableState:
        rows = self.rows.newest()
        origins: dict[StreamId, Origin] = {}
        shards: dict[ShardKey, Position] = {}
        for stream, settings in self._streams(rows.values()).items():
            of_stream = rows_of_stream(stream, rows.values())
            origins[stream] = origin_of(settings, of_stream, self.clock.now())
            shards |= self._positions(
                {ShardKey(stream, row.shard_id): row for row in of_stream if is_of_this_life(stream, row)}
            )
        self._state = TableState(Positions(origins, shards, by_rows=True), None, origin_allowed=True)
        return self._state

    def _streams(self, rows: Iterable[Lease]) -> dict[StreamId, StreamSettings]:
        """The streams of the settings and of the rows, with the settings by which each is read."""
        names = [stream.name for stream in self.settings.streams]
        if self.settings.multi:
            names += [
                stream_as_written(self.settings, row)
                for row in {row.stream: row for row in rows}.values()
                if row.stream is not None
            ]
        streams: dict[StreamId, StreamSettings] = {}
        for name in dict.fromkeys(names):
            try:
                stream, _ = self.streams.facts(name)
            except Unreachable:
                raise
            except HeadraceError:
                # A stream that can't be described holds up its own shards only, and the wave tells of it.
                continue
            streams[stream] = how_to_read(self.settings, stream)
        return streams

    def _positions(self, rows: dict[ShardKey, Lease]) -> dict[ShardKey, Position]:
        to_read = {key: row for key, row in rows.items() if row.key in self.rows.claimed}
        if asked := unknown_arrivals(to_read, self.arrivals):
            found = self.source.arrivals(asked)
            self.arrivals |= {(key, asked[key]): arrival for key, arrival in found.items()}
        now = self.clock.now()
        positions = {key: position_of(row, key, self.arrivals, now) for key, row in rows.items()}
        return {key: position for key, position in positions.items() if position is not None}

    def commit(self, proposal: Proposal) -> Committed:
        # An END goes with its row.
        landing = decide_landing(self._state.positions, replace(proposal, drop=()))
        self._state = replace(self._state, positions=landing.positions)
        return Committed(landing, None, self._state)

    def staging_spec(self) -> StagingSpec:
        # User records are handed out one by one, as KCL does.
        return StagingSpec("", (), unpack=True)

    # -- what only a lake table has --------------------------------------------------------------------------------

    def retained(self) -> History:
        raise _no_table("has snapshots")

    def expire(self, history: History, snapshots: Sequence[int]) -> bool:
        return False

    def carry(self) -> TableState:
        return self._state

    def landings(self, since: datetime) -> tuple[LandedBy, ...]:
        return ()

    def evidence(self, streams: Iterable[StreamId]) -> TableEvidence:
        raise _no_table("can be repaired")

    def rebuild(self, landing: Landing, on: int | None) -> TableState:
        raise _no_table("can be repaired")


def _no_table(does: str) -> Unknown:
    return Unknown(
        f"a processor that is an application of its own has no table that {does}. Nothing was done"
    )
