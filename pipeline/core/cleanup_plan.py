"""What may be cleared away once a shard is over, and when.

    a row that says SHARD_END       stays as a tombstone until
                                      no listing shows the shard, its children are past their start in the table,
                                      its parents' rows are gone, and the table itself counts it as ended
    a row left over: it counts as   goes once Kinesis says ResourceNotFound
    ended, but doesn't say so
    an END in the table             goes once Kinesis says ResourceNotFound, all its children have positions (from
                                      then on they show that it ended), and no parent's END names it any more

A row of an unread shard is never garbage, however long Kinesis has forgotten it: it is data loss, and a person's
matter (or the settings').
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipeline.core.change import Change, delete_ended, delete_garbage
from pipeline.core.lease import Lease
from pipeline.core.order import Family, children_of_ends, counts_as_end
from pipeline.core.position import Positions
from pipeline.core.stream import ShardKey
from pipeline.core.sync import is_of_this_life


def plan_delete_ended(family: Family, leases: Iterable[Lease], positions: Positions) -> list[Change]:
    """`family`: of the stream's unfiltered listing and of all its rows. `leases`: the stream's rows."""
    rows = _by_shard(family, leases)
    passed = family.passed(positions)
    return [
        delete_ended(row, f"{shard_id} ended, its children are being read, and no listing shows it any more")
        for shard_id, row in sorted(rows.items())
        if row.has_ended
        and shard_id not in family.listed
        and counts_as_end(ShardKey(family.stream, shard_id), positions, passed)
        and not any(parent in rows for parent in family.parents.get(shard_id, ()))
        and all(
            _is_past_start(ShardKey(family.stream, child), positions, passed)
            for child in family.children.get(shard_id, ())
        )
    ]


def plan_delete_garbage(
    family: Family, leases: Iterable[Lease], positions: Positions, *, gone: Collection[str]
) -> list[Change]:
    """`gone`: shards of which Kinesis says ResourceNotFound."""
    return [
        delete_garbage(row, f"Kinesis has forgotten {row.shard_id}, and the table counts it as ended")
        for row in _left_over(family, leases, positions)
        if row.shard_id in gone
    ]


def plan_drop(
    family: Family, leases: Iterable[Lease], positions: Positions, *, gone: Collection[str]
) -> tuple[ShardKey, ...]:
    """ENDs that the table needn't carry any more. One whose row doesn't say so yet stays: a run that comes to the row may
    know of no child, and would take the shard for lost."""
    unfinished = {row.shard_id for row in _by_shard(family, leases).values() if not row.has_ended}
    return tuple(
        key
        for key in _droppable(family, positions)
        if key.shard_id in gone and key.shard_id not in unfinished
    )


def worth_asking(family: Family, leases: Iterable[Lease], positions: Positions) -> tuple[ShardKey, ...]:
    """Shards that Kinesis is to be asked about: where the answer 'gone' would clear something away."""
    rows = (ShardKey(family.stream, row.shard_id) for row in _left_over(family, leases, positions))
    return tuple(sorted({*rows, *_droppable(family, positions)}))


def _by_shard(family: Family, leases: Iterable[Lease]) -> dict[str, Lease]:
    return {row.shard_id: row for row in leases if is_of_this_life(family.stream, row)}


def _left_over(family: Family, leases: Iterable[Lease], positions: Positions) -> list[Lease]:
    passed = family.passed(positions)
    return [
        row
        for shard_id, row in sorted(_by_shard(family, leases).items())
        if not row.has_ended
        and row.run_claim is None
        and shard_id not in family.listed
        and counts_as_end(ShardKey(family.stream, shard_id), positions, passed)
    ]


def _droppable(family: Family, positions: Positions) -> list[ShardKey]:
    """Parents first: an END that another END names would be taken for a child that is still to be read."""
    named = children_of_ends(family.stream, positions)
    return [
        key
        for key, at in sorted(positions.shards.items())
        if key.stream == family.stream
        and at.ended
        and key.shard_id not in family.listed
        and key.shard_id not in named
        and at.children
        and all(positions.of(ShardKey(key.stream, child)) is not None for child in at.children)
    ]


def _is_past_start(key: ShardKey, positions: Positions, passed: Collection[str]) -> bool:
    at = positions.of(key)
    return key.shard_id in passed or (at is not None and (at.sequence is not None or at.ended))
