"""How far a processor has come: what its table has and lacks of each shard, and at which shards the processor has
stopped.

`headrace processor status`, `headrace status` and `headrace doctor` show that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.settings.blocks.processors import ProcessorSettings


@dataclass(frozen=True, slots=True)
class ShardStanding:
    """How far a processor has come in one shard."""

    key: ShardKey
    position: Position | None
    """The processor's; None where it has begun with no record of the shard."""
    landed: Position | None
    """The lake table's."""
    stopped: str = ""
    """Why the processor has stopped at this position; empty where it hasn't."""

    @property
    def is_behind(self) -> bool:
        return self.landed is not None and (self.position is None or self.position.token != self.landed.token)

    @property
    def arrivals(self) -> tuple[datetime | None, datetime | None]:
        """The arrival times of the last record that was processed, and of the last one that has landed."""
        return (
            None if self.position is None else self.position.arrival,
            None if self.landed is None else self.landed.arrival,
        )

    @property
    def behind(self) -> timedelta | None:
        """How far the processor is behind the lake table, by arrival times. None where that isn't known."""
        done, landed = self.arrivals
        return landed - done if self.is_behind and done is not None and landed is not None else None

    def __str__(self) -> str:
        place = "nothing yet" if self.position is None else str(self.position)
        if not self.is_behind:
            return f"{self.key}: {place}; it has all that the lake table has"
        behind = "" if not self.behind else f", {self.behind} behind by arrival"
        stopped = f"; stopped: {self.stopped}" if self.stopped else ""
        return f"{self.key}: {place}; the lake table is at {self.landed}{behind}{stopped}"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far one processor has come in all shards."""

    processor: ProcessorSettings
    shards: tuple[ShardStanding, ...]

    @property
    def stopped(self) -> tuple[ShardStanding, ...]:
        return tuple(shard for shard in self.shards if shard.stopped)

    def __str__(self) -> str:
        behind = [shard for shard in self.shards if shard.is_behind]
        farthest = max((shard.behind for shard in behind if shard.behind is not None), default=None)
        by_arrival = f" (by at most {farthest}, by arrival)" if farthest else ""
        stopped = f", stopped at {len(self.stopped)}" if self.stopped else ""
        return (
            f"{self.processor.name}: {self.processor.table}, {counted(len(self.shards), 'shard')}, "
            f"{len(behind)} of them behind the lake table{by_arrival}{stopped}"
        )


def standing_of(processor: ProcessorSettings, ports: ProcessorPorts) -> Standing:
    """How far the processor has come in each shard that one of the tables knows, of the processor's streams.
    Needs no Spark.
    """
    return Standing(processor, tuple(_shards(ports, processor.stream)))


def _shards(ports: ProcessorPorts, stream: str | None) -> Iterator[ShardStanding]:
    # The lake table is loaded first: what the processor's table shows afterwards can only be ahead
    # of this look, so that nobody is told of a lag that there isn't.
    source = ports.source.look().positions if ports.source.exists() else None
    target = ports.table.load().positions if ports.table.exists() else None
    stops = {stop.key: stop for stop in ports.stops.known()}
    keys = {key for positions in (source, target) if positions is not None for key in positions.shards}
    for key in sorted(keys):
        if is_chain(key) or stream not in (None, key.stream.name):
            continue
        position = None if target is None else target.of(key)
        stop = stops.get(key)
        yield ShardStanding(
            key,
            position,
            None if source is None else source.of(key),
            stop.why if stop is not None and stop.holds(position) else "",
        )
