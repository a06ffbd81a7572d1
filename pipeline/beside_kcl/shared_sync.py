"""Shard sync in a table that KCL's workers share: KCL's own plan, behind the same door as ours.

Two planners on one table would undo each other's holes, so that there ours gives way. Landing is judged by the
table all the same: a row that KCL's plan brings back for a shard that ended there is finished at once, and with
that its children's rows are made. What KCL's plan never looks for again, as the row of an ended parent leads to it,
the table tells: a child that no listing showed yet when its parent ended, and a row that was lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from pipeline.core.change import Change, create
from pipeline.core.checkpoint import AT_TIMESTAMP, TRIM_HORIZON, Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.order import Family, counts_as_end, parents_first
from pipeline.core.position import Position, Positions
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, lease_key
from pipeline.core.sync import a_lease, plan_retire, rows_of
from pipeline.kcl.missing_leases import Listed, inconsistent, plan_first_sync, plan_sync, tiles


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
    mine = rows_of(family.stream, rows)
    if rows:
        wanted = plan_sync(listing, {row.shard_id for row in mine}, initial=sentinel, passed_over=odd)
    else:
        wanted = plan_first_sync(_oldest_layer(listing), sentinel)
    why = f"as KCL's own sync from {sentinel} would"
    made = [create(_ours(lease, family, positions, multi=multi), why) for lease in wanted]
    there = {row.shard_id for row in mine} | {lease.key for lease in wanted}
    for shard in _forgotten(listing, family, mine, positions=positions, there=there):
        lease = a_lease(family.stream, shard, multi=multi, positions=positions, sentinel=sentinel)
        made.append(
            create(lease, "by the lake table it is to be read, and KCL's own sync looks for it no more")
        )
    return [*retired, *made]


def _forgotten(
    listing: Iterable[Listed],
    family: Family,
    rows: Iterable[Lease],
    *,
    positions: Positions,
    there: Collection[str],
) -> Iterator[Shard]:
    """`there`: shards that have a row, or get one by KCL's plan."""
    stream, passed = family.stream, family.passed(positions)
    # KCL deletes the row of a shard that it ended once its children's are past their start.
    begun = (row.shard_id for row in rows if row.checkpoint not in {TRIM_HORIZON, AT_TIMESTAMP})
    over = family.passed(Positions(shards={ShardKey(stream, name): Position() for name in begun}))
    for shard in (each.shard for each in listing):
        key = ShardKey(stream, shard.shard_id)
        if shard.shard_id in there or shard.shard_id in over or counts_as_end(key, positions, passed):
            continue
        # Only an END itself says that its children are of the scope: this listing shows what was before the start, too.
        follows = any(positions.has_ended(ShardKey(stream, parent)) for parent in shard.parents)
        if follows or positions.of(key) is not None:
            yield shard


def _in_order(shards: Iterable[Shard], family: Family) -> list[Listed]:
    """Parents start before their children; that is all of KCL's order that matters."""
    by_id = {shard.shard_id: shard for shard in shards}
    return [
        Listed(by_id[shard_id], place) for place, shard_id in enumerate(parents_first(by_id, family.parents))
    ]


def _oldest_layer(listing: Sequence[Listed]) -> list[Listed]:
    """What KCL's filter of the listing lets through: the shards that were open at the start. Not whole: nothing. LATEST
    started when the table says so, a moment ago: what was resharded since is to be read too."""
    shown = {each.shard.shard_id for each in listing}
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
