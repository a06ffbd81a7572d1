"""Where a processor stands: what its table has and lacks of each shard. For `headrace processor status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.processors.ports import ProcessorPorts


@dataclass(frozen=True, slots=True)
class Standing:
    """One shard."""

    key: ShardKey
    position: Position | None
    """The processor's; None where it has begun with no record of the shard."""
    landed: Position | None
    """The lake table's."""

    @property
    def is_behind(self) -> bool:
        return self.landed is not None and (self.position is None or self.position.token != self.landed.token)

    @property
    def arrivals(self) -> tuple[datetime | None, datetime | None]:
        """When the last record arrived that is processed, and the last one that has landed."""
        return (
            None if self.position is None else self.position.arrival,
            None if self.landed is None else self.landed.arrival,
        )

    def __str__(self) -> str:
        place = "nothing yet" if self.position is None else str(self.position)
        if not self.is_behind:
            return f"{self.key}: {place}; all is there that the lake table has"
        done, landed = self.arrivals
        behind = f", {landed - done} behind by arrival" if done is not None and landed is not None else ""
        return f"{self.key}: {place}; the lake table is at {self.landed}{behind}"


def standings(ports: ProcessorPorts, stream: str | None) -> Iterator[Standing]:
    """Each shard that one of the tables knows. `stream`: only of the stream with this name."""
    source = ports.source.look().positions if ports.source.exists() else None
    target = ports.table.load().positions if ports.table.exists() else None
    keys = {key for positions in (source, target) if positions is not None for key in positions.shards}
    for key in sorted(keys):
        if not is_chain(key) and stream in (None, key.stream.name):
            yield Standing(
                key, None if target is None else target.of(key), None if source is None else source.of(key)
            )
