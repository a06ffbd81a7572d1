"""The ledger: which records went into which snapshot. Every commit carries its own page of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pipeline.core.position import Origin, Position
from pipeline.core.stream import ShardKey, StreamId


class Kind(StrEnum):
    """Why a position moved."""

    LANDED = "landed"
    FOREIGN = "foreign"
    """A worker of another application read this range; its rows are elsewhere."""
    SKIPPED = "skipped"
    """Lost to retention or skipped by a person, and recorded as such."""
    REPOSITION = "reposition"
    REPAIR = "repair"
    ADOPT = "adopt"
    REPLAY = "replay"
    """Read again; moves no live position."""


class ParentIs(StrEnum):
    """Why a parent is out of its child's way."""

    ENDED = "ended"
    """END in the table."""
    BEFORE_START = "before-start"
    """No row, no position, not in scope of the origin, but the stream still lists it."""
    GONE = "gone"
    """No row, no position, and Kinesis says ResourceNotFound."""
    PASSED = "passed"
    """No position, but a descendant of it has one (`by`): it counts as END."""


@dataclass(frozen=True, slots=True)
class ParentReason:
    shard_id: str
    why: ParentIs
    by: str | None = None
    """With PASSED: the descendant that has a position."""


@dataclass(frozen=True, slots=True)
class Range:
    """One line of the ledger: one shard went from `after` to `upto` in this commit."""

    kind: Kind
    key: ShardKey
    after: Position | None
    upto: Position
    run: str
    claim: str
    rows: int = 0
    bytes: int = 0
    first_arrival: datetime | None = None
    last_arrival: datetime | None = None
    files: tuple[str, ...] = ()
    """Names (not paths) of the data files that hold its rows."""
    parents: tuple[ParentReason, ...] = ()
    """Every parent of the shard, in its first range; empty in all others."""
    supersedes: tuple[int, ...] = ()
    """Snapshots whose rows a replay stands in for."""
    why: str = ""
    """Of a range that isn't plainly landed: the reason, a person's own words where there was a person. For a skipped
    one, the arrivals tell between which moments records may be gone."""

    @property
    def moves(self) -> bool:
        return self.kind is not Kind.REPLAY

    @property
    def may_go_back(self) -> bool:
        """Two kinds of range are a person's decision, and may move a position back (I9 of docs/protocol.md)."""
        return self.kind in {Kind.REPOSITION, Kind.REPAIR}


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """The ledger of one commit."""

    ranges: tuple[Range, ...] = ()
    origins: tuple[tuple[StreamId, Origin], ...] = ()
    """Origins that this commit decided."""
    dropped: tuple[ShardKey, ...] = ()
    """END positions that this commit removed: Kinesis has forgotten the shard, and all its children have positions."""
