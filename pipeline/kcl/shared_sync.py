"""Shard sync in a table that KCL's workers share: KCL's own plan, behind the same door as ours.

Two planners on one table would undo each other's holes, so that there ours gives way. Landing is judged by the
table all the same: a row that KCL's plan brings back for a shard that ended there is finished at once, and with
that its children's rows are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeline.core.change import Change, create
from pipeline.core.checkpoint import LATEST, Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.order import Family, parents_first
from pipeline.core.position import Positions
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, lease_key
from pipeline.core.sync import plan_retire, rows_of
from pipeline.kcl.sync import Listed, inconsistent, plan_first_sync, plan_sync, tiles


def plan_sync_kcl(
    family: Family,
    in_scope: Iterable[Shard],
    leases: Iterable[Lease],
    *,
    positions: Positions,
    multi: bool,
    sentinel: Checkpoint,
    pass_over_inconsistent: bool = False,
) -> list[Change]:
    """`in_scope`: while the table is empty, the shards from the origin on; later all that the unfiltered listing shows.

    `pass_over_inconsistent`: KCL's ignoreUnexpectedChildShards; without it a listing in the middle of a reshard makes
    nothing at all. `leases` are those of all streams: KCL asks whether the whole table is empty.
    """
    every = tuple(leases)
    retired = plan_retire(family.stream, every)
    gone = {change.key for change in retired}
    rows = [row for row in every if row.key not in gone]
    listing = _in_order(in_scope, family)
    odd = inconsistent(each.shard for each in listing)
    if odd and not pass_over_inconsistent:
        return retired
    if rows:
        mine = {row.shard_id for row in rows_of(family.stream, rows)}
        wanted = plan_sync(listing, mine, initial=sentinel, passed_over=odd)
    else:
        wanted = plan_first_sync(_oldest_layer(listing, sentinel), sentinel)
    why = f"as KCL's own sync from {sentinel} would"
    return [*retired, *(create(_ours(lease, family, positions, multi=multi), why) for lease in wanted)]


def _in_order(shards: Iterable[Shard], family: Family) -> list[Listed]:
    """Parents start before their children; that is all of KCL's order that matters."""
    by_id = {shard.shard_id: shard for shard in shards}
    return [
        Listed(by_id[shard_id], place) for place, shard_id in enumerate(parents_first(by_id, family.parents))
    ]


def _oldest_layer(listing: Sequence[Listed], initial: Checkpoint) -> list[Listed]:
    """What KCL's filter of the listing lets through: the shards that were open at the start. Not whole: nothing."""
    shown = {each.shard.shard_id for each in listing}
    if initial == LATEST:
        layer = [each for each in listing if not each.shard.closed]
    else:
        layer = [each for each in listing if shown.isdisjoint(each.shard.parents)]
    ranges = [each.shard.hash_range for each in layer if each.shard.hash_range is not None]
    return layer if len(ranges) == len(layer) and tiles(ranges) else []


def _ours(lease: Lease, family: Family, positions: Positions, *, multi: bool) -> Lease:
    key = ShardKey(family.stream, lease.key)
    position = positions.of(key)
    stands = position.checkpoint if position is not None and not position.ended else None
    return replace(
        lease,
        key=lease_key(key, multi=multi),
        checkpoint=stands or lease.checkpoint,
        landed=stands,
        stream=family.stream.serialized if multi else None,
        shard=lease.key if multi else None,
        stream_epoch=family.stream.epoch,
    )
