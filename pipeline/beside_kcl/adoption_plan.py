"""Taking over a KCL application: its rows' own positions become the lake table's, in one commit that is its first.

    the row says               the table will say
    digits                     that position; its record, if it can still be read, proves that nothing is lost
    SHARD_END                  END with the row's children (or the listing's)
    TRIM_HORIZON               nothing: the adopted stream's origin is TRIM_HORIZON (that start, where a descendant of it
                               has a position: it isn't to count as ended)
    LATEST                     a start at the moment of adoption, by Kinesis's clock
    AT_TIMESTAMP               a start at the moment that the user names: KCL keeps it in its configuration only
    there is no row            END if a descendant has a row, else nothing: it is read from its start

A shard that has a row is never ended by its descendants: KCL writes child leases before the parent's SHARD_END.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pipeline.core.change import Change, ChangeKind
from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST
from pipeline.core.lease import Lease
from pipeline.core.lineage import Kind, Range
from pipeline.core.order import Family
from pipeline.core.position import TRIM, Position, Positions, Start, is_forward
from pipeline.core.stream import ShardKey, StreamId

_NOBODY_SAW = datetime.fromtimestamp(0, UTC)
"""Of a record that can't be read any more: the first read says that records may be lost."""

_LET_GO = frozenset(
    {"owner", "checkpoint_owner", "run_claim", "wanted_by", "pending", "pending_state", "failure"}
)
"""What a row that is given back doesn't have."""


@dataclass(frozen=True, slots=True)
class AdoptedShard:
    key: ShardKey
    row: Lease | None
    position: Position | None
    """None: nothing is to be said, it is read from TRIM_HORIZON."""
    why: str


def plan_adopt(
    family: Family, rows: Iterable[Lease], *, at: datetime, timestamp: datetime | None
) -> tuple[AdoptedShard, ...]:
    """`family`: of the unfiltered listing and all rows. `at`: the moment of adoption, by Kinesis's clock."""
    by_shard = {row.shard_id: row for row in rows}
    said = [_of_row(family, row, at, timestamp) for row in by_shard.values()]
    covered = _ancestors(family, by_shard)
    for shard_id in sorted((family.listed | covered) - by_shard.keys()):
        if shard_id in covered:
            end = Position(ended=True, children=tuple(sorted(family.children.get(shard_id, ()))))
            said.append(
                AdoptedShard(
                    ShardKey(family.stream, shard_id), None, end, "no row, but a descendant has one: ended"
                )
            )
        else:
            said.append(
                AdoptedShard(ShardKey(family.stream, shard_id), None, None, "no row: read from its start")
            )
    return tuple(sorted(_kept_open(family, said), key=lambda each: each.key))


def _of_row(family: Family, row: Lease, at: datetime, timestamp: datetime | None) -> AdoptedShard:
    key, says = ShardKey(family.stream, row.shard_id), row.checkpoint
    if says.is_end:
        children = family.children.get(row.shard_id, frozenset())
        return AdoptedShard(key, row, Position(ended=True, children=tuple(sorted(children))), "ended")
    if says.is_digits:
        where = Position(int(says.sequence), says.sub, arrival=_NOBODY_SAW)
        return AdoptedShard(key, row, where, f"goes on after {says}")
    if says == LATEST:
        start = Start(at.replace(microsecond=0))
        return AdoptedShard(
            key, row, Position(start=start), f"LATEST: starts at {start.at}, the moment of adoption"
        )
    if says == AT_TIMESTAMP and timestamp is not None:
        return AdoptedShard(
            key, row, Position(start=Start(timestamp)), f"starts at {timestamp}, as was asked"
        )
    return AdoptedShard(key, row, None, "starts at TRIM_HORIZON")


def needs_timestamp(rows: Iterable[Lease]) -> tuple[str, ...]:
    """Keys of rows whose start only KCL's configuration knows."""
    return tuple(sorted(row.key for row in rows if row.checkpoint == AT_TIMESTAMP))


def _ancestors(family: Family, shards: Iterable[str]) -> frozenset[str]:
    todo, met = list(shards), set[str]()
    while todo:
        for parent in family.parents.get(todo.pop(), frozenset()) - met:
            met.add(parent)
            todo.append(parent)
    return frozenset(met)


def _kept_open(family: Family, said: list[AdoptedShard]) -> list[AdoptedShard]:
    """A row at TRIM_HORIZON above a position would count as ended: it says its start itself."""
    placed = _ancestors(family, (each.key.shard_id for each in said if each.position is not None))
    return [
        replace(each, position=Position(start=TRIM))
        if each.position is None and each.row is not None and each.key.shard_id in placed
        else each
        for each in said
    ]


def proven(said: Iterable[AdoptedShard], arrivals: Mapping[ShardKey, datetime]) -> tuple[AdoptedShard, ...]:
    """`arrivals`: of the records at the adopted positions that could still be read."""
    return tuple(
        replace(each, position=replace(each.position, arrival=arrivals[each.key]))
        if each.position is not None and each.key in arrivals
        else each
        for each in said
    )


def is_said(said: Iterable[AdoptedShard], positions: Positions) -> bool:
    """Whether the table's positions of these shards' stream are all of this, and nothing else.

    Where a record is, not whether it can still be read: that may have changed since it was said.
    """
    every = tuple(said)
    streams = {each.key.stream for each in every}
    wanted = {each.key: each.position for each in every if each.position is not None}
    there = {key: at for key, at in positions.shards.items() if key.stream in streams}
    return wanted.keys() == there.keys() and all(
        (at.token, at.start) == (wanted[key].token, wanted[key].start) for key, at in there.items()
    )


def turned_back(said: Iterable[AdoptedShard], family: Family, positions: Positions) -> list[ShardKey]:
    """Shards whose rows don't go on from where the table took them over. What the others are ahead by is for foreign ranges."""
    by_key = {each.key: each for each in said}
    passed = family.passed(positions)
    moved = [
        key
        for key, at in positions.shards.items()
        if key.stream == family.stream and not _goes_on(by_key.get(key), at)
    ]
    # A row that came back above others: its shard counts as ended, and nobody would read it.
    revived = [
        key
        for key, each in by_key.items()
        if each.row is not None
        and not each.row.has_ended
        and key not in positions.shards
        and key.shard_id in passed
    ]
    return sorted([*moved, *revived])


def _goes_on(says: AdoptedShard | None, at: Position) -> bool:
    """KCL clears a row away once its shard has ended and its children have begun. What a run of ours reads is written
    into its row after the commit."""
    if says is None or (says.row is None and says.position is None):
        return at.ended
    if says.row is not None and says.row.run_claim is not None:
        return True
    to = says.position or Position(start=TRIM)
    if to.ended:
        return True
    if to.sequence is None:
        return (at.token, at.start or TRIM) == (to.token, to.start)
    return is_forward(at, to)


def is_unproven(each: AdoptedShard) -> bool:
    return each.position is not None and each.position.arrival == _NOBODY_SAW


def ranges_of(said: Iterable[AdoptedShard], run: str) -> tuple[Range, ...]:
    return tuple(
        Range(Kind.ADOPT, each.key, after=None, upto=each.position, run=run, claim=run, why=each.why)
        for each in said
        if each.position is not None
    )


def stamp(row: Lease, epoch: int) -> Change:
    """Rows of KCL don't say which life of the stream they are of."""
    return Change(
        row.key,
        f"adopted: of the stream's life of {epoch}",
        requires={"stream_epoch": None},
        put={"stream_epoch": epoch},
        kind=ChangeKind.STAMP,
    )


def plan_give_back(stream: StreamId, rows: Iterable[Lease], positions: Positions) -> list[Change]:
    """KCL goes on from the row's checkpoint: bring it to the table's position, and let the row go.

    A shard of which no record has landed has no position that KCL could read; LATEST would mean the moment at which
    KCL looks, so the row says AT_TIMESTAMP: KCL starts at the moment that its configuration names.

    A claim entitles a run to nothing where its worker holds the row no more, or the shard has ended: it was left behind.
    """
    changes = []
    for row in rows:
        at = positions.of(ShardKey(stream, row.shard_id))
        stands = at.checkpoint if at is not None else None
        put: dict[str, object] = {}
        if stands is not None and stands != row.checkpoint:
            put = {"checkpoint": stands, "landed": stands}
        elif stands is None and row.checkpoint == LATEST:
            put = {"checkpoint": AT_TIMESTAMP}
        if not (put or row.owner or row.run_claim or row.wanted_by):
            continue
        changes.append(
            Change(
                row.key,
                f"given back at {put.get('checkpoint', row.checkpoint)}",
                requires={"checkpoint": row.checkpoint, "counter": row.counter, "run_claim": row.run_claim},
                put=put,
                add={"counter": 1},
                remove=_LET_GO,
                kind=ChangeKind.GIVE_BACK,
            )
        )
    return changes


def start_for_kcl(stream: StreamId, rows: Iterable[Lease], positions: Positions) -> datetime | None:
    """The earliest start of a row that stands (or will stand) at AT_TIMESTAMP; None where none does."""
    origin = positions.origins.get(stream)
    starts = []
    for row in rows:
        at = positions.of(ShardKey(stream, row.shard_id))
        if row.checkpoint in {LATEST, AT_TIMESTAMP} and (at is None or at.checkpoint is None):
            start = at.start if at is not None and at.start is not None else origin and origin.start
            starts.append(start.at if start else None)
    return min((each for each in starts if each is not None), default=None)
