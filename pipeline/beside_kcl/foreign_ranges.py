"""A table shared with a live KCL fleet: what its workers read is taken over into the ledger as foreign ranges.

    the row's checkpoint      the lake table       then
    digits, ahead             behind, or nothing   a foreign range up to it; we read on after it
    anything                  ahead of it          nothing: the row is repaired forward, as ever
    `landedCheckpoint` ahead of the table          nothing: our own rows are missing, a person decides

A parent that KCL ended without us becomes a foreign END, so that its children may begin: its row says SHARD_END, or
is gone while the child's row is past its start (KCL deletes it only then). Ranges of ours stay exactly once; a foreign
one says that its rows are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from pipeline.core.lease import Lease
from pipeline.core.lineage import Kind, ParentIs, ParentReason, Range
from pipeline.core.position import Position, Positions
from pipeline.core.start_of_reading import is_rolled_back
from pipeline.core.stream import ShardKey, StreamId

_WHY = "read by a KCL worker"


def unfinished_parents(
    stream: StreamId, rows: Iterable[Lease], positions: Positions
) -> dict[str, tuple[Lease, ...]]:
    """Lease keys of parents that haven't ended in the table, each with the children's rows that name it."""
    found: dict[str, tuple[Lease, ...]] = {}
    for row in rows:
        for parent in sorted(row.parents):
            at = positions.of(ShardKey(stream, parent))
            # A parent without a position counts as ended once its child has one: the clean-up let its END go.
            is_dropped = at is None and positions.of(ShardKey(stream, row.shard_id)) is not None
            if not is_dropped and not (at is not None and at.ended):
                key = row.key.removesuffix(row.shard_id) + parent
                found[key] = (*found.get(key, ()), row)
    return found


def plan_ends(
    stream: StreamId,
    asked: Mapping[str, tuple[Lease, ...]],
    rows: Iterable[Lease],
    positions: Positions,
    *,
    run: str,
    claim: str,
) -> tuple[Range, ...]:
    """`asked`: as `unfinished_parents` has it. `rows`: those of these parents that are there."""
    there = {row.key: row for row in rows}
    ranges = []
    for lease_key, children in sorted(asked.items()):
        row = there.get(lease_key)
        key = ShardKey(stream, lease_key.rpartition(":")[2])
        if _has_ended(row, children) and not is_rolled_back(row, positions.of(key)):
            named = (row.children if row else frozenset()) | {child.shard_id for child in children}
            before = positions.of(key)
            end = replace(before or Position(), ended=True, children=tuple(sorted(named)))
            ranges.append(Range(Kind.FOREIGN, key, after=before, upto=end, run=run, claim=claim, why=_WHY))
    return tuple(ranges)


def _has_ended(row: Lease | None, children: Iterable[Lease]) -> bool:
    """Without a row: a child that KCL began tells. One that we landed began after an END of ours, which is no more."""
    if row is not None:
        return row.has_ended
    return any((child.checkpoint.is_digits or child.has_ended) and child.landed is None for child in children)


def moved_by_others(held: Mapping[ShardKey, Lease], positions: Positions) -> dict[ShardKey, int]:
    """Shards of ours whose rows stand ahead of the table, with the sequence number they stand at."""
    return {
        key: int(row.checkpoint.sequence)
        for key, row in held.items()
        if row.checkpoint.is_digits and _is_ahead(row, positions.of(key))
    }


def _is_ahead(row: Lease, at: Position | None) -> bool:
    if at is not None and at.ended:
        return False
    if is_rolled_back(row, at):
        return False
    stands = at.checkpoint if at is not None else None
    return stands is None or row.checkpoint > stands


def plan_foreign(
    held: Mapping[ShardKey, Lease],
    positions: Positions,
    *,
    arrivals: Mapping[ShardKey, datetime],
    run: str,
    claim: str,
) -> tuple[Range, ...]:
    """`arrivals`: of the records at the rows' checkpoints, as far as they can be read. KCL begins a child after its
    parents only, so the commit refuses one whose parents haven't ended in the table."""
    ranges = []
    for key, at in sorted(moved_by_others(held, positions).items()):
        row, before = held[key], positions.of(key)
        reasons = tuple(ParentReason(parent, ParentIs.ENDED) for parent in sorted(row.parents))
        ranges.append(
            Range(
                Kind.FOREIGN,
                key,
                after=before,
                upto=Position(at, row.checkpoint.sub, arrival=arrivals.get(key)),
                run=run,
                claim=claim,
                last_arrival=arrivals.get(key),
                parents=reasons if before is None else (),
                why=_WHY,
            )
        )
    return tuple(ranges)
