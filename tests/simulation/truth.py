"""What really happened to the stream, known to nobody in the simulation but its judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from pipeline.core.stream import ShardKey, StreamId


class Violation(AssertionError):
    """An invariant of the protocol is broken. `about`: the shard or lease to show in the trace."""

    def __init__(self, invariant: str, said: str, about: str = "") -> None:
        super().__init__(f"{invariant}: {said}")
        self.invariant = invariant
        self.about = about


@dataclass(slots=True)
class ShardTruth:
    key: ShardKey
    parents: tuple[str, ...]
    opened: datetime
    sequences: list[int] = field(default_factory=list)
    arrivals: list[datetime] = field(default_factory=list)
    closed: datetime | None = None
    children: tuple[str, ...] = ()
    # what the table says, commit by commit
    token: tuple[int | None, int, bool] | None = None
    read: int = 0
    """How many of `sequences` the position has passed."""
    gap_until: datetime | None = None
    """What arrived before this was reported as perhaps lost."""

    @property
    def ended(self) -> bool:
        return self.token is not None and self.token[2]


@dataclass(slots=True)
class Truth:
    shards: dict[ShardKey, ShardTruth] = field(default_factory=dict)
    streams: list[StreamId] = field(default_factory=list)

    @property
    def stream(self) -> StreamId:
        """The one that lives now."""
        return self.streams[-1]

    def of(self, shard_id: str) -> ShardTruth:
        return self.shards[ShardKey(self.stream, shard_id)]

    def open_shards(self) -> list[ShardTruth]:
        now = self.stream
        return [s for s in self.shards.values() if s.closed is None and s.key.stream == now]

    def opened(self, key: ShardKey, parents: tuple[str, ...], at: datetime) -> None:
        self.shards[key] = ShardTruth(key, parents, at)

    def put(self, key: ShardKey, sequence: int, at: datetime) -> None:
        shard = self.shards[key]
        shard.sequences.append(sequence)
        shard.arrivals.append(at)

    def closed(self, key: ShardKey, at: datetime, children: tuple[str, ...]) -> None:
        self.shards[key].closed = at
        self.shards[key].children = children

    def is_out_of_scope(self, shard: ShardTruth, origin: datetime | None) -> bool:
        return origin is not None and shard.closed is not None and shard.closed < origin
