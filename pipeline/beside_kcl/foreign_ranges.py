"""Foreign ranges: what KCL workers have read in shared tables is entered into the ledger, without rows in the
lake table.

    a shard's lease row compared with the lake table       what is committed
    -------------------------------------------------------+--------------------------------------------------------
    the checkpoint is a number ahead of the table          | a foreign range up to it; Headrace reads on after it
    the table is ahead of the checkpoint                   | nothing; the run brings the row forward, as always
    `landedCheckpoint` is ahead of the table               | nothing: the table lost rows of Headrace, a person decides

A parent that KCL read to its end gets a foreign END, so that its children may begin. It has ended if its row
says SHARD_END, or if its row is gone while a child's row is past its start, because KCL deletes the parent's
row only then. Records of other ranges still land exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason, Range
from headrace.pipeline.core.order.start_of_reading import is_rolled_back
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

_WHY = "a KCL worker has read this range"


def unfinished_parents(
    stream: StreamId, rows: Iterable[Lease], positions: Positions
) -> dict[str, tuple[Lease, ...]]:
    """Lease keys of parents that haven't ended in the lake table, each with the rows of the children that name it."""
    children_by_parent: dict[str, tuple[Lease, ...]] = {}
    for row in rows:
        for parent in sorted(row.parents):
            position = positions.of(ShardKey(stream, parent))
            # A parent without a position counts as ended once its child has one: its END was removed from the
            # positions.
            is_dropped = position is None and positions.of(ShardKey(stream, row.shard_id)) is not None
            if not is_dropped and not (position is not None and position.ended):
                key = row.key.removesuffix(row.shard_id) + parent
                children_by_parent[key] = (*children_by_parent.get(key, ()), row)
    return children_by_parent


def plan_ends(
    stream: StreamId,
    parents: Mapping[str, tuple[Lease, ...]],
    rows: Iterable[Lease],
    positions: Positions,
    *,
    run: str,
    claim: str,
) -> tuple[Range, ...]:
    """Foreign ENDs of the parents that KCL has read to their ends. `parents`: the answer of
    `unfinished_parents`. `rows`: the rows of these parents that exist."""
    by_key = {row.key: row for row in rows}
    ranges = []
    for lease_key, children in sorted(parents.items()):
        row = by_key.get(lease_key)
        key = ShardKey(stream, lease_key.rpartition(":")[2])
        if _has_ended(row, children) and not is_rolled_back(row, positions.of(key)):
            named = (row.children if row else frozenset()) | {child.shard_id for child in children}
            before = positions.of(key)
            end = replace(before or Position(), ended=True, children=tuple(sorted(named)))
            ranges.append(Author(run, claim).range(Kind.FOREIGN, key, before, end, why=_WHY))
    return tuple(ranges)


def _has_ended(row: Lease | None, children: Iterable[Lease]) -> bool:
    """Whether KCL has read the parent to its end. `row`: the parent's row, None if it was deleted."""
    if row is not None:
        return row.has_ended
    # KCL deletes a parent's row once its children have begun. If Headrace began the child (its row has
    # `landed`), the table had an END of the parent, and a rollback removed it: KCL didn't read that parent
    # (D14).
    return any((child.checkpoint.is_digits or child.has_ended) and child.landed is None for child in children)


def ahead_of_table(held: Mapping[ShardKey, Lease], positions: Positions) -> dict[ShardKey, int]:
    """Held shards whose checkpoint is ahead of the lake table, each with the sequence number of its checkpoint."""
    return {
        key: int(row.checkpoint.sequence)
        for key, row in held.items()
        if row.checkpoint.is_digits and _is_ahead(row, positions.of(key))
    }


def _is_ahead(row: Lease, position: Position | None) -> bool:
    if position is not None and position.ended:
        return False
    if is_rolled_back(row, position):
        # Headrace landed these records and the table lost them: they must not pass for records that KCL read (D14).
        return False
    stands = position.checkpoint if position is not None else None
    return stands is None or row.checkpoint > stands


def plan_foreign(
    held: Mapping[ShardKey, Lease],
    positions: Positions,
    *,
    arrivals: Mapping[ShardKey, datetime],
    run: str,
    claim: str,
) -> tuple[Range, ...]:
    """The foreign ranges up to the rows' checkpoints. `arrivals`: when the records at these checkpoints
    arrived, where that can still be read.

    The first range of a shard names its parents as ended: KCL begins a child only after its parents. If a
    parent hasn't ended in the lake table, the commit refuses the range (I3).
    """
    ranges = []
    for key, sequence in sorted(ahead_of_table(held, positions).items()):
        row, before = held[key], positions.of(key)
        reasons = tuple(ParentReason(parent, ParentIs.ENDED) for parent in sorted(row.parents))
        ranges.append(
            Author(run, claim).range(
                Kind.FOREIGN,
                key,
                before,
                Position(sequence, row.checkpoint.sub, arrival=arrivals.get(key), inside=True),
                arrivals=Arrivals(last=arrivals.get(key)),
                parents=reasons if before is None else (),
                why=_WHY,
            )
        )
    return tuple(ranges)
