"""What a run does with a shard before it reads: the lease row is compared with the lake table, and the start is chosen.

the table's position       the row's checkpoint          the run
END                        anything but SHARD_END        finishes the steps of the shard's end, reads nothing
none, but a descendant's   anything                      treats the shard as ended, reads nothing
a position                 an older one                  brings the row forward, reads from the table's position
a position                 a later one, of Headrace      stops the shard: the table was rolled back
a position                 a later one, of another       stops the shard: another program read it
none                       a sequence number             stops the shard: the table lost the position
none                       a word such as TRIM_HORIZON   starts at TRIM_HORIZON after its parents, else at the origin

Where the positions are the checkpoints of the lease rows themselves, as for a processor that is an application of its own,
a row that is ahead has moved on since the wave looked. Its shard waits for the next wave.

For a claim that the run has kept, the row's checkpoint is the later one of the row's and of what the run itself has
landed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.ledger.ledger import ParentReason
from headrace.pipeline.core.order.parents import InTheWay
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey

_WHAT_NEXT = "nothing was read or changed; `headrace reposition` decides which of the two is right"


@dataclass(frozen=True, slots=True)
class Read:
    """The plan for a shard that is to be read from the table's position on. `repair`: the checkpoint that its row
    has to get first, if any.
    """

    batch: Batch
    repair: Checkpoint | None = None
    below: frozenset[str] = frozenset()
    """For a shard without a position: its descendants, as far as they are known."""
    known: frozenset[str] = frozenset()
    """For a shard without a position: all shards of the stream that are known."""
    origin: Origin | None = None
    """The origin of the stream, by which the reading begins where no record has landed."""
    is_listed: bool = False
    """Whether a listing that the plan goes by shows the shard. Listings are read for shards of which no record has landed."""
    unread_at_origin: datetime | None = None
    """Where the batch's witness is the date of the origin's commit, or may be: when the oldest record arrived that the stream had then.
    No record from before that date was read, either."""
    unread_since: datetime | None = None
    """Where the batch's witness is no older than this plan: since when the shard may have records that nobody has read."""

    @property
    def lost_since(self) -> datetime:
        """Since when records may be lost, if the shard is gone from Kinesis."""
        return self.batch.witness if self.unread_since is None else self.unread_since

    def oldest_lost(self, since: datetime) -> datetime:
        """When the oldest of the records may have arrived that were lost. `since`: the moment up to which nothing was lost unseen."""
        is_of_plan = since <= self.batch.witness
        return since if self.unread_at_origin is None or not is_of_plan else min(since, self.unread_at_origin)


@dataclass(frozen=True, slots=True)
class Finish:
    """The plan for a shard that has ended in the table. Two steps are left: rows for its children, then SHARD_END
    in its row.
    """

    position: Position


@dataclass(frozen=True, slots=True)
class Passed:
    """The plan for a shard that counts as ended, because its descendant `by` has a position. Clean-up deletes its
    row later.
    """

    by: str
    children: frozenset[str] = frozenset()
    """The known children of the shard."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The plan for a shard that can't be read yet: its stream has no origin, or its parents come first."""

    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The plan for a shard whose row and table contradict each other: nothing is read, and a person has to decide."""

    why: str


Begin = Read | Finish | Passed | Wait | Stop


@dataclass(frozen=True, slots=True)
class Above:
    """The parents of an unread shard and the shards above them, as far as they decide where its reading starts."""

    parents: tuple[ParentReason, ...] = ()
    """The parents that are out of the way, each with the reason why."""
    waiting: tuple[InTheWay, ...] = ()
    """The parents that have to be read first."""
    passed_by: str | None = None
    """A descendant of the unread shard itself that has a position."""
    lost: tuple[datetime, ...] | None = None
    """Where records of shards above may be lost: the witnesses that these records came after (see
    `core.order.lost_above`)."""


def plan_begin(
    row: Lease,
    key: ShardKey,
    positions: Positions,
    *,
    retention: timedelta,
    above: Above = Above(),
    below: frozenset[str] = frozenset(),
    known: frozenset[str] = frozenset(),
    goes_on: bool = False,
) -> Begin:
    """What the run does with the shard of this row. `below`: the known descendants of a shard without a position.
    `known`: all known shards of the stream. `goes_on`: lost records are recorded as a gap and don't stop the
    shard.
    """
    position = positions.of(key)
    if position is not None and position.ended:
        return Finish(position)
    if position is None and above.passed_by is not None:
        return Passed(above.passed_by)
    # Before the parents are looked at: a disagreement must be reported even while the shard waits.
    disagreement = _disagreement(row, key, position)
    if disagreement is not None:
        return Wait(_moved_meanwhile(row, key, position)) if positions.by_rows else Stop(disagreement)
    origin = positions.origins.get(key.stream)
    if origin is None:
        return Wait(f"no origin is decided yet for {key.stream}")
    # The parents come first also where a position has no record yet (I3 of docs/reference/protocol.md).
    if (position is None or position.sequence is None) and above.waiting:
        return Wait("; ".join(w.why for w in above.waiting))
    witness = _witness(key, position, positions, above, origin, retention)
    unread_at_origin = (
        _unread_at_origin(key, positions, origin, retention)
        if _goes_by_origin(position, above, origin, witness)
        else None
    )
    if position is None and positions.by_rows:
        witness = _later_by_row(row, witness, origin)
    batch = Batch(
        key,
        after=position,
        start=_start(key, position, positions, above.parents, origin),
        witness=witness,
        retention=retention,
        parents=above.parents if position is None else (),
        weight=row.throughput_kbps or 1.0,
        goes_on=goes_on or (position is not None and position.gap_accepted),
        hash_range=row.hash_range,
    )
    if position is None:
        since = _unread_since(row, batch, origin) if positions.by_rows else None
        return Read(
            batch,
            below=below,
            known=known,
            origin=origin,
            unread_since=since,
            unread_at_origin=unread_at_origin,
        )
    stands = position.checkpoint
    repair = stands if stands is not None and row.checkpoint < stands else None
    return Read(batch, repair, origin=origin, unread_at_origin=unread_at_origin)


def _disagreement(row: Lease, key: ShardKey, position: Position | None) -> str | None:
    # As the row would have it, because rows and table are compared by checkpoints.
    stands = position.checkpoint if position else None
    said = row.checkpoint
    if is_rolled_back(row, position):
        return why_rolled_back(row, key, position)
    if stands is None and (said.is_digits or said.is_end):
        return (
            f"the lease row of {key} has the checkpoint {said}, "
            "but the lake table has no position of the shard: another "
            f"program wrote the row, or the table was replaced; {_WHAT_NEXT}"
        )
    if stands is not None and said > stands:
        return (
            f"the lease row of {key} has the checkpoint {said}, "
            f"ahead of the lake table's position {position}: a program "
            f"other than Headrace wrote the checkpoint; {_WHAT_NEXT}"
        )
    return None


def why_rolled_back(row: Lease, key: ShardKey, position: Position | None) -> str:
    """The sentence about a shard of which the row says that Headrace landed more than the table has."""
    return (
        f"the lake table's position of {key} is {position or 'none'}, "
        f"but Headrace landed the shard up to {row.landed} "
        f"before: the table was rolled back or restored; {_WHAT_NEXT}"
    )


def _moved_meanwhile(row: Lease, key: ShardKey, position: Position | None) -> str:
    return (
        f"the lease row of {key} has the checkpoint {row.checkpoint}, and had {position or 'none'} when this wave looked: "
        "another process is writing it. Nothing was read, and the next wave begins at the row"
    )


def is_rolled_back(row: Lease | None, position: Position | None) -> bool:
    """Whether the row says that Headrace landed more of the shard than the table has."""
    # A rollback is told apart from another program's checkpoint, because that program didn't read the records that the
    # rollback removed (D14).
    stands = position.checkpoint if position is not None else None
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
    of_parents = (positions.of(ShardKey(key.stream, p.shard_id)) for p in parents)
    # A parent that ended without a record may have ended before the origin, where the origin was a timestamp in the
    # future.
    return (
        TRIM
        if any(parent is not None and parent.sequence is not None for parent in of_parents)
        else origin.start
    )


def _witness(
    key: ShardKey,
    position: Position | None,
    positions: Positions,
    above: Above,
    origin: Origin,
    retention: timedelta,
) -> datetime:
    """The latest moment up to which nothing of the shard can have been lost unseen (docs/reference/protocol.md, section
    4)."""
    own = position.witness if position else None
    if own is not None:
        return own
    start = _start_of_stream(key, positions, origin, retention)
    of_parents = (positions.children_since(ShardKey(key.stream, p.shard_id)) for p in above.parents)
    # Where another parent was read, the date of the origin's commit isn't the witness: it may be later than the child's
    # first records.
    latest = max((t for t in of_parents if t is not None), default=start)
    # A parent that is gone without a position may have lost records that no run read, and no position tells when. So
    # the witness of the other parent isn't enough.
    return latest if above.lost is None else min(start, latest, *above.lost)


def _goes_by_origin(position: Position | None, above: Above, origin: Origin, witness: datetime) -> bool:
    """Whether the date of the origin's commit may be all that tells up to when nothing of the shard was lost."""
    if position is None or position.witness is None:
        return above.lost is not None or witness == origin.decided
    # A gap leaves the witness as it was. Without a gap the shard was read at that very moment.
    return position.skipped_until is not None and witness == origin.decided


def _unread_at_origin(key: ShardKey, positions: Positions, origin: Origin, retention: timedelta) -> datetime:
    """When the oldest record arrived that the stream had at the date of the origin's commit, and that is wanted."""
    start = _start_of_stream(key, positions, origin, retention)
    if start != origin.decided:
        return start
    kept = max(key.stream.created, origin.decided - retention)
    return kept if origin.start.at is None else max(kept, origin.start.at)


def _unread_since(row: Lease, batch: Batch, origin: Origin) -> datetime | None:
    """Since when the shard may have unread records, where only the origin tells and is decided anew with each plan: such a
    witness never gets older than the retention, and a shard that is gone would stop its children for ever."""
    if batch.witness < origin.decided:
        return None
    since = _quiet_until(row) or batch.key.stream.created
    return since if origin.start.at is None else max(since, origin.start.at)


def _later_by_row(row: Lease, witness: datetime, origin: Origin) -> datetime:
    """The witness of a shard's parents, or a later look at the shard itself: what its parents tell of lost records is told once."""
    quiet = _quiet_until(row)
    return witness if quiet is None or witness >= origin.decided else max(witness, quiet)


def _quiet_until(row: Lease) -> datetime | None:
    """When the last wave found nothing more in the shard to read; None where it left something, or no wave has read it."""
    return row.looked_at if row.behind_ms == 0 else None


def _start_of_stream(key: ShardKey, positions: Positions, origin: Origin, retention: timedelta) -> datetime:
    """The moment since which the records of the stream have to be read."""
    # A later life of the stream starts at TRIM_HORIZON, and none of its records is older than its creation.
    if any(s.arn == key.stream.arn and s.epoch < key.stream.epoch for s in positions.origins):
        return key.stream.created
    # With AT_TIMESTAMP: if the moment was within the retention when the origin was decided, Kinesis had all records
    # since then. An older moment proves nothing, and a later one would hide a loss that happens before it.
    named = origin.start.at
    in_reach = named is not None and timedelta(0) <= origin.decided - named <= retention
    return named if named is not None and in_reach else origin.decided
