"""What really happened to the streams. Only the judges know it; the simulated processes don't."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

History = list[tuple[float, str, object]]
"""Entries of virtual time, the process or person that acts, and what happens."""


class Violation(BaseException):
    """An invariant of docs/reference/protocol.md is broken. `about`: the shard or key that the trace of the failure is
    limited to.

    It isn't an `Exception`, because the product's upkeep goes on where one of its parts has raised one."""

    def __init__(self, invariant: str, said: str, about: str = "") -> None:
        super().__init__(f"{invariant}: {said}")
        self.invariant = invariant
        self.about = about


@dataclass(slots=True)
class ShardTruth:
    """What really happened to one shard."""

    key: ShardKey
    parents: tuple[str, ...]
    opened: datetime
    hash_range: HashRange | None = None
    sequences: list[int] = field(default_factory=list)
    """For each user record, its sequence number + sub-sequence number (see `MemoryRecord.users`)."""
    subs: dict[int, int] = field(default_factory=dict)
    """The sub-sequence number of each of them, where it isn't 0."""
    users: dict[int, int] = field(default_factory=dict)
    """How many user records a record has, by its sequence number, where these are several."""
    arrivals: list[datetime] = field(default_factory=list)
    closed: datetime | None = None
    children: tuple[str, ...] = ()
    # what the commits say so far
    token: tuple[int | None, int, bool] | None = None
    read: int = 0
    """How many of `sequences` the table's position has passed."""
    gaps: tuple[tuple[datetime, datetime], ...] = ()
    """The gaps in the ledger, each from one time to another."""
    left_out: set[int] = field(default_factory=set)
    """Records that a landing rightly left out: they were trimmed, and lie in a gap or need none."""
    proofs: tuple[tuple[float, datetime], ...] = ()
    """For each commit: when it was made, and up to when it proves that no record was lost."""
    unread_until: datetime | None = None
    """Set when the shard was read and had no record: records that arrived before this time were trimmed before the
    stream could first be read."""
    first_read: datetime | None = None
    """When the run had read the shard whose commit first told of it."""
    was: tuple[int | None, int, bool] | None = None
    """The furthest position that the shard had before a person rolled the table back."""
    named: tuple[str, ...] = ()
    """The children that the END in the table names. Where the shard left the stream unread, some children may be missing."""
    end_planned: float = float("inf")
    """When the run that landed the END had loaded the table. What has landed since, that run couldn't heed."""
    begins: int | None = None
    """For an adopted shard: how many of `sequences` KCL has read."""

    def checkpoint(self, number: int) -> Checkpoint:
        """At this one of `sequences`."""
        sub = self.subs.get(number, 0)
        return Checkpoint(str(number - sub), sub)

    def read_up_to(self, number: int) -> int:
        """How many of `sequences` a table has that has the row with this number. A row at the beginning of an aggregate stands for all of it:
        no landing ends after the first of several user records."""
        return bisect_right(self.sequences, number + self.users.get(number, 1) - 1)

    def arrival(self, number: int) -> datetime:
        """When the user record with this number arrived, or the aggregate at the beginning of which it is."""
        return self.arrivals[bisect_left(self.sequences, number)]

    def goes_back(self) -> None:
        if self.was is None or (self.token is not None and _order(self.token) > _order(self.was)):
            self.was = self.token

    @property
    def ended(self) -> bool:
        return self.token is not None and self.token[2]


def number_of(token: tuple[int | None, int, bool] | None) -> int:
    """The number of the user record at the position with this token; -1 where there is none."""
    return -1 if token is None or token[0] is None else token[0] + token[1]


def _order(token: tuple[int | None, int, bool]) -> tuple[bool, int]:
    return token[2], number_of(token)


@dataclass(slots=True)
class Truth:
    """What really happened to all shards of all streams."""

    shards: dict[ShardKey, ShardTruth] = field(default_factory=dict)
    streams: list[StreamId] = field(default_factory=list)
    """All lives of all streams."""
    living: dict[str, StreamId] = field(default_factory=dict)
    """The present life of each stream, by name."""
    taken_out: dict[str, float] = field(default_factory=dict)
    """The streams that were taken out of the settings, by name, each with when that was."""

    @property
    def stream(self) -> StreamId:
        """The present life of the first stream."""
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
        living = [stream for name, stream in self.living.items() if name not in self.taken_out]
        return [s for s in self.shards.values() if s.closed is None and s.key.stream in living]

    def opened(
        self, key: ShardKey, parents: tuple[str, ...], at: datetime, hash_range: HashRange | None
    ) -> None:
        """Note that a shard was opened."""
        self.shards[key] = ShardTruth(key, parents, at, hash_range)

    def put(self, key: ShardKey, sequence: int, at: datetime, users: int = 1) -> None:
        """Note that a record with so many user records was put."""
        shard = self.shards[key]
        shard.sequences += range(sequence, sequence + users)
        shard.arrivals += [at] * users
        shard.subs |= {sequence + sub: sub for sub in range(1, users)}
        shard.users |= {sequence: users} if users > 1 else {}

    def closed(self, key: ShardKey, at: datetime, children: tuple[str, ...]) -> None:
        """Note that a shard was closed."""
        self.shards[key].closed = at
        self.shards[key].children = children

    @staticmethod
    def first(shard: ShardTruth, origin: datetime | None) -> int:
        """How many records of the shard lie before the stream's start."""
        if shard.begins is not None:
            return shard.begins
        return 0 if origin is None else bisect_left(shard.arrivals, origin)

    def is_passed(self, shard: ShardTruth, placed: Collection[ShardKey]) -> bool:
        """Whether a descendant of the shard has a position, so that the shard counts as ended without a position
        of its own."""
        children = [self.shards[ShardKey(shard.key.stream, child)] for child in shard.children]
        return any(child.key in placed or self.is_passed(child, placed) for child in children)

    def placed(self) -> set[ShardKey]:
        return {key for key, shard in self.shards.items() if shard.token is not None}

    def is_out_of_scope(self, shard: ShardTruth, origin: datetime | None) -> bool:
        return origin is not None and shard.closed is not None and shard.closed < origin

    def is_before_start(self, shard: ShardTruth, origin: datetime | None) -> bool:
        """The shard is closed and all its records were put before the origin, so no run reads it."""
        return (
            origin is not None
            and shard.closed is not None
            and self.first(shard, origin) == len(shard.sequences)
        )
