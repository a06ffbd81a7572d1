"""Shard sync: which lease rows are missing, given what Kinesis lists and where the table stands."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.core.change import Change, create, retire
from pipeline.core.checkpoint import TRIM_HORIZON, Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.order import Family, parents_first
from pipeline.core.position import Positions
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, StreamId, lease_key


def a_lease(
    stream: StreamId,
    shard: Shard,
    *,
    multi: bool,
    positions: Positions,
    sentinel: Checkpoint,
    owner: str | None = None,
) -> Lease:
    """The row of a shard that has none: at the table's position where it has one."""
    key = ShardKey(stream, shard.shard_id)
    position = positions.of(key)
    stands = position.checkpoint if position else None
    has_history = any(positions.of(ShardKey(stream, p)) for p in shard.parents)
    return Lease(
        lease_key(key, multi=multi),
        checkpoint=stands or (TRIM_HORIZON if has_history else sentinel),
        owner=owner,
        parents=frozenset(shard.parents),
        hash_range=shard.hash_range,
        stream=stream.serialized if multi else None,
        shard=shard.shard_id if multi else None,
        stream_epoch=stream.epoch,
        landed=stands,
    )


def plan_sync(
    family: Family,
    in_scope: Iterable[Shard],
    leases: Iterable[Lease],
    *,
    positions: Positions,
    multi: bool,
    sentinel: Checkpoint,
) -> list[Change]:
    """A row for each shard in scope that hasn't ended in the table, once a parent of it has (or none is left to read).

    `sentinel` is what KCL's readers find in a row of a shard that starts where the stream does.
    """
    stream = family.stream
    rows = {lease.key: lease for lease in leases}
    shards = {s.shard_id: s for s in in_scope}
    # A shard that is read and no longer listed keeps its row: its reader tells what became of it.
    unlisted = {
        key.shard_id: Shard(key.shard_id)
        for key, position in positions.shards.items()
        if key.stream == stream and not position.ended and key.shard_id not in shards
    }
    changes = [
        retire(row, f"{stream.name} was made anew: this row is of its life of {row.stream_epoch}")
        for row in sorted(rows.values(), key=lambda row: row.key)
        if row.stream_epoch is not None and row.stream_epoch < stream.epoch
    ]
    for shard_id in parents_first({**shards, **unlisted}, family.parents):
        if lease_key(ShardKey(stream, shard_id), multi=multi) in rows:
            continue
        why = _why_created(shard_id, family, positions)
        if why is not None:
            shard = shards.get(shard_id) or unlisted[shard_id]
            lease = a_lease(stream, shard, multi=multi, positions=positions, sentinel=sentinel)
            changes.append(create(lease, why))
    return changes


def _why_created(shard_id: str, family: Family, positions: Positions) -> str | None:
    if family.counts_as_end(shard_id, positions):
        return None
    if positions.of(ShardKey(family.stream, shard_id)) is not None:
        return "the lake table has a position for this shard: its row is rebuilt"
    to_read = [
        p
        for p in family.parents.get(shard_id, ())
        if p in family.in_scope
        or p in family.with_row
        or positions.of(ShardKey(family.stream, p)) is not None
    ]
    if not to_read:
        return "no parent of this shard is left to read"
    ended = sorted(p for p in to_read if family.counts_as_end(p, positions))
    return f"its parent {ended[0]} has ended" if ended else None
