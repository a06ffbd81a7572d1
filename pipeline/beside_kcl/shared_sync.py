"""Shard sync in tables that KCL workers share: KCL's own rules decide which lease rows are made.

Two different rules on one table would undo each other's work, so Headrace's own rules aren't used there. The
lake table still decides what lands: if KCL's rules make a row for a shard that has ended in the lake table,
the next run writes SHARD_END into it and makes the rows of its children.

KCL's rules take the row of an ended parent for proof that its children have rows. So they never make two kinds of
missing rows: that of a child that no listing showed yet when its parent ended, and one that was deleted. Headrace
makes them, because the lake table says that these shards are still to be read. Nor do they make that of a shard
that no listing showed when the row of its child was made. Headrace makes the row of such a parent as long as the
child is unread: Headrace's runs wait for the parent's end, and a KCL worker would pass over its records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from headrace.pipeline.core.leases.change import Change, create
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import Family, counts_as_end, parents_first
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, lease_key
from headrace.pipeline.core.sharing.sync_plan import (
    a_lease,
    is_unread,
    plan_turnover,
    rows_of_earlier_lives,
    rows_of_stream,
)
from headrace.pipeline.kcl.missing_leases import (
    Listed,
    inconsistent,
    plan_first_sync,
    plan_missing_leases,
    tiles,
)


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
    """The lease rows to make and to retire.

    `in_scope`: while the lease table is empty, the shards from the origin on; later, all shards of the
    unfiltered listing. `leases`: the rows of all streams, because KCL's rules ask whether the whole table is
    empty. `pass_over_inconsistent`: KCL's ignoreUnexpectedChildShards. Without it, no row is made from a
    listing that Kinesis answered in the middle of a reshard.
    """
    every = tuple(leases)
    retired = rows_of_earlier_lives(family.stream, every)
    gone = {row.key for row in retired}
    rows = [row for row in every if row.key not in gone]
    is_begun = sentinel != LATEST or bool(rows_of_stream(family.stream, rows))
    listing = _in_order(in_scope, family)
    odd = inconsistent(listed.shard for listed in listing)
    # As in KCL, one inconsistent shard stops the whole sync of the stream. The next listing may be consistent.
    if odd and not pass_over_inconsistent:
        return plan_turnover(family.stream, retired, (), is_begun=is_begun)
    of_stream = rows_of_stream(family.stream, rows)
    if rows:
        missing = plan_missing_leases(
            listing, {row.shard_id for row in of_stream}, initial=sentinel, passed_over=odd
        )
    else:
        missing = plan_first_sync(_open_at_start(listing), sentinel)
    why = f"KCL's shard sync from {sentinel} would make the row too"
    changes = [create(_as_our_row(lease, family, positions, multi=multi), why) for lease in missing]
    with_row = {row.shard_id for row in of_stream} | {lease.key for lease in missing}
    # At LATEST, closed shards without a row may be from before the start.
    awaited = _above_unread(of_stream, family) if sentinel != LATEST else frozenset()
    for shard in _missed_by_kcl(
        listing, family, of_stream, positions=positions, with_row=with_row, awaited=awaited
    ):
        lease = a_lease(family.stream, shard, multi=multi, positions=positions, sentinel=sentinel)
        changes.append(
            create(lease, "the lake table has yet to read the shard, and KCL's shard sync won't make its row")
        )
    return plan_turnover(family.stream, retired, changes, is_begun=is_begun)


def _missed_by_kcl(
    listing: Iterable[Listed],
    family: Family,
    rows: Iterable[Lease],
    *,
    positions: Positions,
    with_row: Collection[str],
    awaited: Collection[str],
) -> Iterator[Shard]:
    """Shards without a row that the lake table still has to read, and whose row KCL's rules don't make.

    `with_row`: shards that have a row, or are given one by KCL's rules. `awaited`: shards of whose descendants an unread
    one waits for them.
    """
    stream, passed = family.stream, family.passed(positions)
    # A shard without a row has ended if a descendant's row is past its start: KCL deletes rows only then.
    begun = (row.shard_id for row in rows if row.checkpoint not in {TRIM_HORIZON, AT_TIMESTAMP})
    over = family.passed(Positions(shards={ShardKey(stream, name): Position() for name in begun}))
    for shard in (listed.shard for listed in listing):
        key = ShardKey(stream, shard.shard_id)
        if shard.shard_id in with_row or shard.shard_id in over or counts_as_end(key, positions, passed):
            continue
        # The unfiltered listing also shows shards from before the origin. A parent's END in the lake table
        # shows that the shard comes after the origin.
        follows = any(positions.has_ended(ShardKey(stream, parent)) for parent in shard.parents)
        if follows or positions.of(key) is not None or shard.shard_id in awaited:
            yield shard


def _above_unread(rows: Iterable[Lease], family: Family) -> frozenset[str]:
    """The ancestors without a row of shards that no worker has read yet."""
    above, by_shard = set[str](), {row.shard_id: row for row in rows}
    left = [shard_id for shard_id, row in by_shard.items() if is_unread(row)]
    while left:
        parents = family.parents.get(left.pop(), frozenset()) - by_shard.keys() - above
        above |= parents
        left += parents
    return frozenset(above)


def _in_order(shards: Iterable[Shard], family: Family) -> list[Listed]:
    """The shards, parents before children, numbered in this order. KCL orders by the first sequence number;
    all that matters of that order is that parents come first."""
    by_id = {shard.shard_id: shard for shard in shards}
    return [
        Listed(by_id[shard_id], place) for place, shard_id in enumerate(parents_first(by_id, family.parents))
    ]


def _open_at_start(listing: Sequence[Listed]) -> list[Listed]:
    """The shards that were open at the start: those whose parents aren't listed. KCL gets them by a filter of
    ListShards. Empty if they don't cover all hash keys; the next sync tries again.

    At LATEST the start is the moment that the lake table has as the origin. Children of a reshard since then
    aren't among these shards: their rows are made when their parents have ended.
    """
    shown = {listed.shard.shard_id for listed in listing}
    layer = [listed for listed in listing if shown.isdisjoint(listed.shard.parents)]
    ranges = [listed.shard.hash_range for listed in layer if listed.shard.hash_range is not None]
    return layer if len(ranges) == len(layer) and tiles(ranges) else []


def _as_our_row(lease: Lease, family: Family, positions: Positions, *, multi: bool) -> Lease:
    """The row that Headrace makes of KCL's lease. If the lake table has a position of the shard, the row has
    it too (I9)."""
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
