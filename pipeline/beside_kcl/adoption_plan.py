"""How `headrace adopt` turns the checkpoints of a KCL application into positions of the lake table, in one commit.

    checkpoint in the row      position in the lake table
    a sequence number          that number; if its record can still be read, nothing was lost after it
    SHARD_END                  END, with the children that the row or the listing names
    TRIM_HORIZON               none: the origin of an adopted stream is TRIM_HORIZON. If a descendant has a position,
                               the position says TRIM_HORIZON, because the shard would count as ended otherwise
    LATEST                     a start at the moment of adoption, by Kinesis's clock
    AT_TIMESTAMP               a start at the timestamp that the user names: only KCL's configuration has it
    (no row)                   END if a descendant has a row; otherwise none, and the shard is read from its start

A shard that has a row never counts as ended because of its descendants: KCL creates the leases of the children before
it writes SHARD_END into the parent's row (D13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.order.parents import Family
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST
from headrace.pipeline.core.shards.position import TRIM, Position, Positions, Start, is_forward
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

# The arrival of a record that can't be read any more. It is older than any retention, so that the first
# wave reports that records may be lost.
_UNKNOWN_ARRIVAL = datetime.fromtimestamp(0, UTC)

# Removed from each row that is given back.
_REMOVED_ATTRIBUTES = frozenset(
    {"owner", "checkpoint_owner", "run_claim", "wanted_by", "pending", "pending_state", "failure"}
)


@dataclass(frozen=True, slots=True)
class AdoptedShard:
    key: ShardKey
    row: Lease | None
    position: Position | None
    """The shard's position in the table; None where it gets none, and is read from TRIM_HORIZON."""
    why: str


def plan_adopt(
    family: Family, rows: Iterable[Lease], *, adopted: datetime, timestamp: datetime | None
) -> tuple[AdoptedShard, ...]:
    """The position of each shard. `family`: all shards that the unfiltered listing or a row names. `adopted`: the
    moment of
    adoption, by Kinesis's clock. `timestamp`: the start of rows at AT_TIMESTAMP."""
    by_shard = {row.shard_id: row for row in rows}
    shards = [_of_row(family, row, adopted, timestamp) for row in by_shard.values()]
    covered = _ancestors(family, by_shard)
    for shard_id in sorted((family.listed | covered) - by_shard.keys()):
        if shard_id in covered:
            end = Position(ended=True, children=tuple(sorted(family.children.get(shard_id, ()))))
            why = "the shard has no lease row, and a descendant of it has one: it counts as ended"
            shards.append(AdoptedShard(ShardKey(family.stream, shard_id), None, end, why))
        else:
            why = "the shard has no lease row: it is read from its start"
            shards.append(AdoptedShard(ShardKey(family.stream, shard_id), None, None, why))
    return tuple(sorted(_with_own_start(family, shards), key=lambda shard: shard.key))


def _of_row(family: Family, row: Lease, adopted: datetime, timestamp: datetime | None) -> AdoptedShard:
    key, checkpoint = ShardKey(family.stream, row.shard_id), row.checkpoint
    if checkpoint.is_end:
        children = family.children.get(row.shard_id, frozenset())
        end = Position(ended=True, children=tuple(sorted(children)))
        return AdoptedShard(key, row, end, "ended")
    if checkpoint.is_digits:
        # `with_arrivals` replaces the arrival if the record can still be read.
        where = Position(int(checkpoint.sequence), checkpoint.sub, arrival=_UNKNOWN_ARRIVAL, inside=True)
        return AdoptedShard(key, row, where, f"goes on after {checkpoint}")
    if checkpoint == LATEST:
        start = Start(adopted.replace(microsecond=0))
        why = f"the row is at LATEST: reading starts at {start.at}, the moment of adoption"
        return AdoptedShard(key, row, Position(start=start), why)
    if checkpoint == AT_TIMESTAMP and timestamp is not None:
        why = f"the row is at AT_TIMESTAMP: reading starts at {timestamp}, the given timestamp"
        return AdoptedShard(key, row, Position(start=Start(timestamp)), why)
    return AdoptedShard(key, row, None, "starts at TRIM_HORIZON")


def needs_timestamp(rows: Iterable[Lease]) -> tuple[str, ...]:
    """Keys of the rows at AT_TIMESTAMP. Only KCL's configuration has their timestamp."""
    return tuple(sorted(row.key for row in rows if row.checkpoint == AT_TIMESTAMP))


def _ancestors(family: Family, shards: Iterable[str]) -> frozenset[str]:
    todo, met = list(shards), set[str]()
    while todo:
        for parent in family.parents.get(todo.pop(), frozenset()) - met:
            met.add(parent)
            todo.append(parent)
    return frozenset(met)


def _with_own_start(family: Family, shards: list[AdoptedShard]) -> list[AdoptedShard]:
    """Gives a position to each shard that has a row, but no position yet, and a descendant with a position. A
    shard without a position counts as ended once a descendant has one."""
    placed = _ancestors(family, (shard.key.shard_id for shard in shards if shard.position is not None))
    return [
        replace(shard, position=Position(start=TRIM))
        if shard.position is None and shard.row is not None and shard.key.shard_id in placed
        else shard
        for shard in shards
    ]


def with_arrivals(
    shards: Iterable[AdoptedShard], arrivals: Mapping[ShardKey, datetime]
) -> tuple[AdoptedShard, ...]:
    """The shards with the arrival times of their last records. `arrivals` has those that could still be read."""
    return tuple(
        replace(shard, position=replace(shard.position, arrival=arrivals[shard.key]))
        if shard.position is not None and shard.key in arrivals
        else shard
        for shard in shards
    )


def is_adopted(shards: Iterable[AdoptedShard], positions: Positions) -> bool:
    """Whether the lake table has exactly these positions of the stream, and no others.

    Arrival times aren't compared: since the adoption, records may have left the stream.
    """
    every = tuple(shards)
    streams = {shard.key.stream for shard in every}
    planned = {shard.key: shard.position for shard in every if shard.position is not None}
    stored = {key: position for key, position in positions.shards.items() if key.stream in streams}
    return planned.keys() == stored.keys() and all(
        (position.token, position.start) == (planned[key].token, planned[key].start)
        for key, position in stored.items()
    )


def not_continued(shards: Iterable[AdoptedShard], family: Family, positions: Positions) -> list[ShardKey]:
    """Shards of an adopted stream whose rows don't continue the table's position. Rows that are ahead of the
    table do: KCL's workers have read on, and those ranges become foreign ranges."""
    by_key = {shard.key: shard for shard in shards}
    passed = family.passed(positions)
    moved = [
        key
        for key, position in positions.shards.items()
        if key.stream == family.stream and not _continues(by_key.get(key), position)
    ]
    # Rows of shards that count as ended because a descendant has a position. No run would read such a shard.
    revived = [
        key
        for key, shard in by_key.items()
        if shard.row is not None
        and not shard.row.has_ended
        and key not in positions.shards
        and key.shard_id in passed
    ]
    return sorted([*moved, *revived])


def _continues(shard: AdoptedShard | None, position: Position) -> bool:
    """Whether the row of a shard, as read now, continues the table's position."""
    if shard is None or (shard.row is None and shard.position is None):
        # KCL deletes a row once its shard has ended and its children have begun.
        return position.ended
    if shard.row is not None and shard.row.run_claim is not None:
        # A run of Headrace is reading the shard, and writes the row after its commit: the row may be behind the table.
        return True
    if shard.row is not None and shard.row.landed is not None and shard.row.checkpoint == shard.row.landed:
        # Headrace wrote this checkpoint itself. It is late where the run that kept the row was killed.
        return True
    to = shard.position or Position(start=TRIM)
    if to.ended:
        return True
    if to.sequence is None:
        return (position.token, position.start or TRIM) == (to.token, to.start)
    return is_forward(position, to)


def is_unproven(shard: AdoptedShard) -> bool:
    """Whether the last checkpointed record can't be read any more."""
    return shard.position is not None and shard.position.arrival == _UNKNOWN_ARRIVAL


def adopt_ranges(shards: Iterable[AdoptedShard], run: str) -> tuple[Range, ...]:
    """The ranges of the commit, one for each shard that gets a position."""
    return tuple(
        Author(run).range(Kind.ADOPT, shard.key, None, shard.position, why=shard.why)
        for shard in shards
        if shard.position is not None
    )


def stamp(row: Lease, epoch: int) -> Change:
    """The write that puts the stream's creation time into a row. KCL's rows of a single stream don't have it."""
    return Change(
        row.key,
        f"adopted: the row is of the stream that was created at {epoch}",
        requires={"stream_epoch": None},
        put={"stream_epoch": epoch},
        kind=ChangeKind.STAMP,
    )


def plan_give_back(stream: StreamId, rows: Iterable[Lease], positions: Positions) -> list[Change]:
    """The writes that give the leases back: each row gets the lake table's position, and no owner or claim.

    If no record of a shard has landed, the table has no sequence number for its row. LATEST would then mean
    the moment at which KCL starts, so a row at LATEST gets AT_TIMESTAMP: KCL starts at the timestamp in its
    configuration.

    A claim that is still in a row was left behind: its worker no longer holds the row, or the shard has ended.
    """
    changes = []
    for row in rows:
        position = positions.of(ShardKey(stream, row.shard_id))
        stands = position.checkpoint if position is not None else None
        put: dict[str, object] = {}
        if stands is not None and stands != row.checkpoint:
            # `landed` as well: if Headrace reads on later, it must know this checkpoint for its own.
            put = {"checkpoint": stands, "landed": stands}
        elif stands is None and row.checkpoint == LATEST:
            put = {"checkpoint": AT_TIMESTAMP}
        if not (put or row.owner or row.run_claim or row.wanted_by):
            continue
        changes.append(
            Change(
                row.key,
                f"given back at {put.get('checkpoint', row.checkpoint)}",
                # The counter as read: a worker that beats meanwhile keeps its lease.
                requires={"checkpoint": row.checkpoint, "counter": row.counter, "run_claim": row.run_claim},
                put=put,
                add={"counter": 1},
                remove=_REMOVED_ATTRIBUTES,
                kind=ChangeKind.GIVE_BACK,
            )
        )
    return changes


def start_for_kcl(stream: StreamId, rows: Iterable[Lease], positions: Positions) -> datetime | None:
    """The timestamp for KCL's configuration: the earliest start of all rows that are, or will be, at
    AT_TIMESTAMP. None if there is no such row."""
    origin = positions.origins.get(stream)
    starts = []
    for row in rows:
        position = positions.of(ShardKey(stream, row.shard_id))
        if row.checkpoint in {LATEST, AT_TIMESTAMP} and (position is None or position.checkpoint is None):
            start = (
                position.start
                if position is not None and position.start is not None
                else origin and origin.start
            )
            starts.append(start.at if start else None)
    return min((moment for moment in starts if moment is not None), default=None)
