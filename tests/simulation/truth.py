"""What really happened to the stream, known to nobody in the simulation but its judges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.core.lease import Lease
from pipeline.core.stream import ShardKey, StreamId

History = list[tuple[float, str, object]]
"""When, who, what."""


class Violation(AssertionError):
    """An invariant of docs/protocol.md is broken. `about`: the shard or lease to show in the trace."""

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
    gaps: tuple[tuple[datetime, datetime], ...] = ()
    """From when to when records were reported as perhaps lost."""
    forgiven: set[int] = field(default_factory=set)
    """Records that a landing passed over for good reason: trimmed, and told of or never ours."""
    proofs: tuple[tuple[float, datetime], ...] = ()
    """With each commit: up to when it proves that nothing was lost."""
    unread_until: datetime | None = None
    """Looked at, and no record was there: what arrived before this was trimmed before the stream was ever read."""
    was: tuple[int | None, int, bool] | None = None
    """The furthest that it stood at before a person rolled the table back."""
    begins: int | None = None
    """Of an adopted shard: how many of `sequences` were KCL's."""

    def goes_back(self) -> None:
        if self.was is None or (self.token is not None and _order(self.token) > _order(self.was)):
            self.was = self.token

    @property
    def ended(self) -> bool:
        return self.token is not None and self.token[2]


def _order(token: tuple[int | None, int, bool]) -> tuple[bool, int]:
    return token[2], token[0] or -1


@dataclass(slots=True)
class Truth:
    shards: dict[ShardKey, ShardTruth] = field(default_factory=dict)
    streams: list[StreamId] = field(default_factory=list)
    """All lives of all of them."""
    living: dict[str, StreamId] = field(default_factory=dict)
    """By name."""
    unasked: dict[str, float] = field(default_factory=dict)
    """Names of streams that the settings say no more, each with when it was taken out."""

    @property
    def stream(self) -> StreamId:
        """The one that lives now; with several, the first."""
        return next(iter(self.living.values()))

    def is_first_life(self, stream: StreamId) -> bool:
        return next(each for each in self.streams if each.arn == stream.arn) == stream

    def lives(self, stream: StreamId) -> bool:
        return self.living.get(stream.name) == stream

    def stream_of(self, row: Lease) -> StreamId | None:
        if row.stream is not None:
            return next((each for each in self.streams if each.serialized == row.stream), None)
        return next((each for each in self.streams if each.epoch == row.stream_epoch), self.stream)

    def of(self, shard_id: str) -> ShardTruth:
        return self.shards[ShardKey(self.stream, shard_id)]

    def open_shards(self) -> list[ShardTruth]:
        living = {stream for name, stream in self.living.items() if name not in self.unasked}
        return [s for s in self.shards.values() if s.closed is None and s.key.stream in living]

    def opened(self, key: ShardKey, parents: tuple[str, ...], at: datetime) -> None:
        self.shards[key] = ShardTruth(key, parents, at)

    def put(self, key: ShardKey, sequence: int, at: datetime) -> None:
        shard = self.shards[key]
        shard.sequences.append(sequence)
        shard.arrivals.append(at)

    def closed(self, key: ShardKey, at: datetime, children: tuple[str, ...]) -> None:
        self.shards[key].closed = at
        self.shards[key].children = children

    @staticmethod
    def first(shard: ShardTruth, origin: datetime | None) -> int:
        """Where the stream's start lies in this shard."""
        if shard.begins is not None:
            return shard.begins
        return 0 if origin is None else bisect_left(shard.arrivals, origin)

    def is_passed(self, shard: ShardTruth, placed: Collection[ShardKey]) -> bool:
        """A descendant of it has a position, so that it counts as ended without one."""
        children = [self.shards[ShardKey(shard.key.stream, child)] for child in shard.children]
        return any(child.key in placed or self.is_passed(child, placed) for child in children)

    def placed(self) -> set[ShardKey]:
        return {key for key, shard in self.shards.items() if shard.token is not None}

    def is_out_of_scope(self, shard: ShardTruth, origin: datetime | None) -> bool:
        return origin is not None and shard.closed is not None and shard.closed < origin
