"""Where the lake table stands: the origin of each stream and the position of each shard.

The lake table decides where a shard stands; lease rows only follow it (docs/protocol.md, section 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.core.checkpoint import SHARD_END, Checkpoint
from pipeline.core.stream import ShardKey, StreamId


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins in a shard that has no record landed yet."""

    at: datetime | None = None
    """None is TRIM_HORIZON. LATEST never gets here: it is a timestamp by Kinesis's clock once decided."""

    def __str__(self) -> str:
        return "TRIM_HORIZON" if self.at is None else f"AT_TIMESTAMP {self.at.isoformat()}"


TRIM = Start()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stream starts, decided once for ever by an empty commit."""

    start: Start
    decided: datetime
    """By Kinesis's clock: the witness for a root shard that nobody has read yet."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a shard has landed. What is compared and swapped is (sequence, sub, ended) only."""

    sequence: int | None = None
    """Of the last record landed; None when none has."""
    sub: int = 0
    ended: bool = False
    children: tuple[str, ...] = ()
    """Kept because a crash would lose the last page's ChildShards otherwise."""
    arrival: datetime | None = None
    """Arrival time of the record at the position."""
    seen: datetime | None = None
    """Kinesis's clock at the last answer at the tip of the shard while it was open."""
    start: Start | None = None
    """Only while no record has landed, and only where it isn't what the origin says."""
    gap_accepted: bool = False
    """A person accepts that records after it may be gone: the next read goes on from what is left, and notes the gap."""

    @property
    def token(self) -> tuple[int | None, int, bool]:
        """What a commit must find unchanged."""
        return (self.sequence, self.sub, self.ended)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What a lease row should say; None where it should keep its sentinel."""
        if self.ended:
            return SHARD_END
        return None if self.sequence is None else Checkpoint(str(self.sequence), self.sub)

    @property
    def witness(self) -> datetime | None:
        """The last moment at which nothing before the position can have been lost unseen."""
        return max((t for t in (self.arrival, self.seen) if t is not None), default=None)

    def __str__(self) -> str:
        at = (
            "no record yet"
            if self.sequence is None
            else f"{self.sequence}" + (f"/{self.sub}" if self.sub else "")
        )
        return f"{at}, ended" if self.ended else at


def _order(position: Position | None) -> tuple[int, int, bool]:
    if position is None:
        return (-2, 0, False)
    return (-1 if position.sequence is None else position.sequence, position.sub, position.ended)


def is_forward(before: Position | None, after: Position) -> bool:
    """Whether going from one to the other keeps or advances every part of what is compared and swapped."""
    was, now = _order(before), _order(after)
    return now[:2] >= was[:2] and now[2] >= was[2]


@dataclass(frozen=True, slots=True)
class Positions:
    """Everything a commit carries forward."""

    origins: Mapping[StreamId, Origin] = field(default_factory=dict)
    shards: Mapping[ShardKey, Position] = field(default_factory=dict)

    def of(self, key: ShardKey) -> Position | None:
        return self.shards.get(key)

    def has_ended(self, key: ShardKey) -> bool:
        position = self.shards.get(key)
        return position is not None and position.ended

    def streams(self) -> frozenset[StreamId]:
        return frozenset(self.origins) | {key.stream for key in self.shards}

    def with_shards(self, moved: Mapping[ShardKey, Position], dropped: Iterable[ShardKey] = ()) -> Positions:
        gone = frozenset(dropped)
        kept = {key: at for key, at in self.shards.items() if key not in gone}
        return Positions(self.origins, {**kept, **moved})

    def with_origins(self, decided: Mapping[StreamId, Origin]) -> Positions:
        """An origin that is already there stands, whatever is asked."""
        return Positions({**decided, **self.origins}, self.shards)
