"""The origin of each stream and the position of each shard, as the lake table keeps them.

The lake table decides what has landed; lease rows only follow it (docs/reference/protocol.md, section 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_SUB = 2**63 - 1
"""The highest sub-sequence number, which sorts after every user record of a Kinesis record: a range that a person has cut
ends there, whether or not there is such a record."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins in a shard of which no record has landed yet."""

    at: datetime | None = None
    """None is TRIM_HORIZON. There is no LATEST: when an origin is decided, LATEST becomes the time by Kinesis's
    clock."""

    def __str__(self) -> str:
        return "TRIM_HORIZON" if self.at is None else f"AT_TIMESTAMP {self.at.isoformat()}"


TRIM = Start()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the reading of a stream starts. It is decided once, by a commit without rows, and never changes."""

    start: Start
    decided: datetime
    """When it was decided, by Kinesis's clock. It is the witness of a root shard that no run has read yet."""

    @property
    def footing(self) -> tuple[int | None, int | None]:
        """The values of the origin that a commit compares with the table's, because its ranges were read from
        that origin on.
        """
        return _stored(self.start.at), _stored(self.decided)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a shard has landed. A commit compares the position with the table's by `footing`."""

    sequence: int | None = None
    """Sequence number of the last landed record; None while no record has landed."""
    sub: int = 0
    """Sub-sequence number of the last landed user record: of an aggregate that was taken apart, the last one in it."""
    ended: bool = False
    children: tuple[str, ...] = ()
    """The children of an ended shard. Kinesis names them only on the shard's last page, which no run reads again."""
    arrival: datetime | None = None
    """When Kinesis received the last landed record."""
    seen: datetime | None = None
    """When Kinesis last answered, by its clock, that this open shard had nothing newer."""
    start: Start | None = None
    """Where reading starts instead of at the origin. Set only while no record has landed."""
    gap_accepted: bool = False
    """A person accepted that the next records may be lost: the next wave reads what Kinesis still has, and records the
    gap."""
    inside: bool = False
    """Another program wrote the checkpoint that this position comes from, and its record may be an aggregate with
    further user records after `sub`."""
    skipped_until: datetime | None = None
    """Up to when the records after this position are given up: a range of kind `skipped` tells of them, and left the
    position where it was. None once a later record has landed."""

    @property
    def reads_again(self) -> bool:
        """Whether reading begins with the position's own record, because user records after `sub` may be left in it."""
        # Also after an aggregate that Headrace has taken apart: a version that didn't know `inside` adopted such
        # positions too.
        return self.sequence is not None and (self.inside or self.sub > 0)

    @property
    def token(self) -> tuple[int | None, int, bool]:
        """How far the position is: two positions with the same token have the same records before them."""
        return (self.sequence, self.sub, self.ended)

    @property
    def footing(self) -> tuple[object, ...]:
        """The values that a commit compares with the table's, because its range was read from this position on:
        how far the position is, and what a person decided about the records after it. Such a decision leaves the
        token as it was, and a person who sets the table back undoes it.
        """
        # Without `arrival` and `seen`: a second run that only looked at the quiet shard must not refuse the commit of
        # the first.
        start = None if self.start is None else (_stored(self.start.at),)
        return (*self.token, start, self.gap_accepted, self.inside, _stored(self.skipped_until))

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that the lease row should have; None where the row should keep its word, such as
        TRIM_HORIZON."""
        if self.ended:
            return SHARD_END
        return None if self.sequence is None else Checkpoint(str(self.sequence), self.sub)

    @property
    def witness(self) -> datetime | None:
        """The latest moment up to which nothing of the shard can have been lost unseen (docs/reference/protocol.md,
        section 4)."""
        return max((t for t in (self.arrival, self.seen) if t is not None), default=None)

    @property
    def is_start_only(self) -> bool:
        """Whether the position names a start and nothing else, as after `headrace adopt`. Then only the positions of
        the parents tell since when records of the shard may have been lost."""
        return self.sequence is None and not self.ended and self.witness is None

    def __str__(self) -> str:
        place = (
            "no record yet"
            if self.sequence is None
            else f"{self.sequence}" + (f"/{self.sub}" if self.sub else "")
        )
        return f"{place}, ended" if self.ended else place


def _stored(at: datetime | None) -> int | None:
    """A time as snapshots keep it, in whole milliseconds: a process may know the same time more exactly."""
    return None if at is None else (at - _EPOCH) // timedelta(milliseconds=1)


def _order(position: Position | None) -> tuple[int, int, bool]:
    if position is None:
        return (-2, 0, False)
    # A position without a record is further than none at all: it has decided where reading begins.
    return (-1 if position.sequence is None else position.sequence, position.sub, position.ended)


def is_forward(before: Position | None, after: Position) -> bool:
    """Whether `after` takes back nothing that `before` has reached (I9 of docs/reference/protocol.md)."""
    was, became = _order(before), _order(after)
    # The end is compared by itself: a higher sequence number must not open a shard that has ended.
    return became[:2] >= was[:2] and became[2] >= was[2]


def reaches(position: Position, upto: Position) -> bool:
    """Whether all records up to the end of a range are behind the position."""
    # A shard that was read to its end has no record further on, also where a gap without a record led there.
    if position.ended:
        return True
    # A range that a person cut ends after all user records of its last record, of which the table has the highest.
    return position.sequence == upto.sequence or is_forward(upto, position)


@dataclass(frozen=True, slots=True)
class Positions:
    """All origins and positions of the lake table. Each commit carries them forward into its snapshot."""

    origins: Mapping[StreamId, Origin] = field(default_factory=dict)
    shards: Mapping[ShardKey, Position] = field(default_factory=dict)
    by_rows: bool = False
    """Whether there is no lake table, and each position is the checkpoint in the shard's lease row."""

    def is_independent(self, key: ShardKey) -> bool:
        """Whether the shard can be read without a position of its parents."""
        position = self.of(key)
        return position is not None and not position.is_start_only

    def children_since(self, key: ShardKey) -> datetime | None:
        """A moment before which no record of the ended shard's children arrived; None where the table knows no
        such moment.
        """
        position, origin = self.of(key), self.origins.get(key.stream)
        if position is None:
            return None
        # The END of a shard without a record may have no witness but the origin's decision. The shard may have been
        # closed long before that, and then its children have older records. Where a later start was asked for, older
        # records aren't wanted.
        tells_nothing = (
            origin is not None
            and position.sequence is None
            and position.witness == origin.decided
            and (origin.start.at is None or origin.start.at < origin.decided)
        )
        return None if tells_nothing else position.witness

    def of(self, key: ShardKey) -> Position | None:
        """The shard's position; None where the table has none."""
        return self.shards.get(key)

    def has_ended(self, key: ShardKey) -> bool:
        position = self.shards.get(key)
        return position is not None and position.ended

    def streams(self) -> frozenset[StreamId]:
        return frozenset(self.origins) | {key.stream for key in self.shards}

    def has_later_life(self, stream: StreamId) -> bool:
        """Whether the table knows that the stream was deleted and created again: nothing more lands of this life."""
        return any(life.arn == stream.arn and life.epoch > stream.epoch for life in self.origins)

    def with_shards(self, moved: Mapping[ShardKey, Position], dropped: Iterable[ShardKey] = ()) -> Positions:
        # Copied as a whole, which doesn't compute the hash of each key again: a table may have ten thousand shards.
        shards = dict(self.shards)
        for key in dropped:
            shards.pop(key, None)
        shards.update(moved)
        return Positions(self.origins, shards)

    def with_origins(self, decided: Mapping[StreamId, Origin]) -> Positions:
        """These positions, with those of the decided origins added that they lack. An origin that is already
        there stays as it is.
        """
        return Positions({**decided, **self.origins}, self.shards)
