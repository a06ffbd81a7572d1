"""Clean-up: which rows and which END positions of ended shards can be deleted.

    a row with SHARD_END               is deleted once no listing shows the shard, its children are past their start in
    (the tombstone)                    the table, its parents' rows are gone, and the shard counts as ended in the table
    a row without SHARD_END, though    is deleted once Kinesis answers ResourceNotFound
    the shard counts as ended
    an END in the table                is removed once Kinesis answers ResourceNotFound, all its known children have positions
                                       (which then show that it ended), and no parent's END names it any more. Where a
                                       child may be unknown, all open shards need positions, too. Kinesis isn't asked
                                       before the retention is over since the shard's last record

The row of a shard that was not read to its end is never deleted, however long ago Kinesis forgot the shard: its records
are lost, and a person or the setting `on_data_loss` decides what happens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.leases.change import Change, delete_ended, delete_garbage
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.cover import is_whole
from headrace.pipeline.core.order.parents import Family, children_of_ends, counts_as_end
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life


@dataclass(frozen=True, slots=True)
class Drop:
    """END positions that a commit removes from the lake table."""

    ends: tuple[ShardKey, ...] = ()
    begun: tuple[ShardKey, ...] = ()
    """The shards whose positions show that nothing after these ENDs is left to read."""


def plan_delete_ended(family: Family, leases: Iterable[Lease], positions: Positions) -> list[Change]:
    """Delete tombstones that nothing needs. `family`: from the stream's unfiltered listing and all its rows. `leases`:
    these rows."""
    # A shard whose tombstone is deleted too early looks like one that was never read (D15 of
    # docs/reference/protocol.md). Whether its children are past their start is asked of the table, because their rows
    # can be ahead of it.
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
    """Delete rows of forgotten shards that count as ended without SHARD_END. `gone`: shards for which Kinesis answers
    ResourceNotFound."""
    return [
        delete_garbage(row, f"Kinesis has forgotten {row.shard_id}, and the table counts it as ended")
        for row in _left_over(family, leases, positions)
        if row.shard_id in gone
    ]


def plan_drop(
    family: Family,
    leases: Iterable[Lease],
    positions: Positions,
    *,
    gone: Collection[str],
    listed: Iterable[Shard],
) -> Drop:
    """END positions that the table needn't keep any more. `gone`: shards for which Kinesis answers ResourceNotFound.
    `listed`: all shards that Kinesis lists."""
    # Where the row has no SHARD_END yet, the END stays: the row may name no child, and then a run that reads the row
    # would take the shard for one whose records are lost.
    unfinished = {row.shard_id for row in _by_shard(family, leases).values() if not row.has_ended}
    chosen = {
        key: begun
        for key, begun in _droppable(family, positions, listed).items()
        if key.shard_id in gone and key.shard_id not in unfinished
    }
    return Drop(tuple(chosen), tuple(sorted(frozenset().union(*chosen.values()))))


def worth_asking(
    family: Family,
    leases: Iterable[Lease],
    positions: Positions,
    *,
    listed: Iterable[Shard],
    kept_since: datetime,
) -> tuple[ShardKey, ...]:
    """Shards of which a row or an END could be deleted if Kinesis has forgotten them, so that it is worth asking
    Kinesis. `listed`: as in `plan_drop`. `kept_since`: the moment since which Kinesis still has all records.
    """
    rows = (ShardKey(family.stream, row.shard_id) for row in _left_over(family, leases, positions))
    candidates = sorted({*rows, *_droppable(family, positions, listed)})
    # Kinesis forgets no shard that had a record, or was open, within the retention. An answer that it has would be a
    # mistake.
    return tuple(
        key for key in candidates if (witness := _witness(positions, key)) is None or witness < kept_since
    )


def _witness(positions: Positions, key: ShardKey) -> datetime | None:
    position = positions.of(key)
    return None if position is None else position.witness


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


def _droppable(
    family: Family, positions: Positions, listed: Iterable[Shard]
) -> dict[ShardKey, frozenset[ShardKey]]:
    """END positions that can be removed as soon as Kinesis has forgotten their shards, each with the shards whose
    positions allow it."""
    # A child that a parent's END names and that has no position counts as one that is still to be read
    # (`plan_shard_sync`). So the parent's END goes before the child's.
    named = children_of_ends(family.stream, positions)
    shards = tuple(listed)
    still_open = [shard for shard in shards if not shard.closed]
    # A late listing may hide shards.
    are_all = is_whole(shards)
    droppable: dict[ShardKey, frozenset[ShardKey]] = {}
    for key, position in sorted(positions.shards.items()):
        shard_id = key.shard_id
        if (
            key.stream != family.stream
            or not position.ended
            or shard_id in family.listed
            or shard_id in named
        ):
            continue
        below = set(family.children.get(shard_id, ()))
        if family.lacks_a_child(shard_id):
            # Once every open shard has a position, nothing above it is left to read, and so no unknown child either.
            if not are_all:
                continue
            below.update(shard.shard_id for shard in still_open)
        begun = frozenset(ShardKey(key.stream, child) for child in below)
        if all(positions.is_independent(child) for child in begun):
            droppable[key] = begun
    return droppable


def _is_past_start(key: ShardKey, positions: Positions, passed: Collection[str]) -> bool:
    position = positions.of(key)
    return key.shard_id in passed or (
        position is not None and (position.sequence is not None or position.ended)
    )
