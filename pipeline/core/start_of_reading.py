"""Before a wave reads a shard: does its row agree with the table, and where does reading begin?

the table says        the row says                          then
END                   anything but SHARD_END                finish the chores of its end, read nothing
none, a descendant's  anything                              it counts as END: the row is left over, read nothing
a position            behind it                             repair the row forward, read on from the table
a position            ours, ahead of it (landed*)           stop: the table was rolled back
a position            ahead of it, not ours                 stop: a foreign reader
none                  digits                                stop: the table lost its position
none                  a word                                begin at TRIM_HORIZON (after parents) or the origin
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pipeline.core.batch import Batch
from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.lineage import ParentIs, ParentReason
from pipeline.core.order import InTheWay
from pipeline.core.position import TRIM, Origin, Position, Positions, Start
from pipeline.core.stream import ShardKey


@dataclass(frozen=True, slots=True)
class Read:
    """Read on from the table's position. `repair`: where the row has to be brought to first."""

    batch: Batch
    repair: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The shard has ended in the table; only the chores of its end are left."""

    position: Position


@dataclass(frozen=True, slots=True)
class Passed:
    """The shard counts as ended, for a descendant of it has a position: its row is left over."""

    by: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is wrong; something else comes first."""

    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Row and table disagree. A person decides."""

    why: str


Begin = Read | Finish | Passed | Wait | Stop


def plan_begin(
    row: Lease,
    key: ShardKey,
    positions: Positions,
    *,
    retention: timedelta,
    parents: tuple[ParentReason, ...] = (),
    waiting: tuple[InTheWay, ...] = (),
    passed_by: str | None = None,
    goes_on: bool = False,
) -> Begin:
    """`goes_on`: records that left the stream unread are noted instead of stopping the shard."""
    position = positions.of(key)
    if position is not None and position.ended:
        return Finish(position)
    if position is None and passed_by is not None:
        return Passed(passed_by)
    disagreement = _disagreement(row, key, position)
    if disagreement is not None:
        return Stop(disagreement)
    origin = positions.origins.get(key.stream)
    if origin is None:
        return Wait(f"no origin is decided yet for {key.stream}")
    if (position is None or position.sequence is None) and waiting:
        return Wait("; ".join(w.why for w in waiting))
    batch = Batch(
        key,
        after=position,
        start=_start(key, position, positions, parents, origin),
        witness=_witness(key, position, positions, parents, origin, retention),
        retention=retention,
        parents=parents if position is None else (),
        weight=row.throughput_kbps or 1.0,
        goes_on=goes_on or (position is not None and position.gap_accepted),
    )
    stands = position.checkpoint if position else None
    return Read(batch, repair=stands if stands is not None and row.checkpoint < stands else None)


def _disagreement(row: Lease, key: ShardKey, position: Position | None) -> str | None:
    stands = position.checkpoint if position else None
    said = row.checkpoint
    nothing_lost = "nothing was read or moved; `headrace reposition` decides which of the two is right"
    if is_rolled_back(row, position):
        return (
            f"the lake table stands at {position or 'nothing'} for {key}, but we landed it up to {row.landed} before: the "
            f"table was rolled back or restored; {nothing_lost}"
        )
    if stands is None and (said.is_digits or said.is_end):
        return (
            f"the lease row of {key} stands at {said}, but the lake table has no position for it: another reader moved "
            f"the row, or the table was replaced; {nothing_lost}"
        )
    if stands is not None and said > stands:
        return (
            f"the lease row of {key} stands at {said}, ahead of the lake table's {position}: a reader that isn't "
            f"Headrace checkpointed it; {nothing_lost}"
        )
    return None


def is_rolled_back(row: Lease | None, at: Position | None) -> bool:
    """We landed more than the table has."""
    stands = at.checkpoint if at is not None else None
    return row is not None and row.landed is not None and (stands is None or row.landed > stands)


def _start(
    key: ShardKey,
    position: Position | None,
    positions: Positions,
    parents: tuple[ParentReason, ...],
    origin: Origin,
) -> Start:
    if position is not None and position.start is not None:
        return position.start
    theirs = (positions.of(ShardKey(key.stream, p.shard_id)) for p in parents)
    # A parent that ended without a record may have ended before a start that lay in the future then.
    return TRIM if any(at is not None and at.sequence is not None for at in theirs) else origin.start


def _witness(
    key: ShardKey,
    position: Position | None,
    positions: Positions,
    parents: tuple[ParentReason, ...],
    origin: Origin,
    retention: timedelta,
) -> datetime:
    """The last moment up to which nothing can have been lost unseen."""
    own = position.witness if position else None
    if own is not None:
        return own
    theirs = [
        at.witness for p in parents if (at := positions.of(ShardKey(key.stream, p.shard_id))) is not None
    ]
    known = [t for t in theirs if t is not None]
    # A parent that left the stream unread had records of its own, and no position tells since when.
    if known and all(p.why is not ParentIs.GONE for p in parents):
        return max(known)
    if any(s.arn == key.stream.arn and s.epoch < key.stream.epoch for s in positions.origins):
        return datetime.fromtimestamp(key.stream.epoch, UTC)
    # Records since the moment named were there when the origin was decided, if they were within reach then.
    named = origin.start.at
    in_reach = named is not None and timedelta(0) <= origin.decided - named <= retention
    return named if named is not None and in_reach else origin.decided
