"""Shard sync: which lease rows are missing, given what Kinesis lists and the positions in the lake table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from headrace.pipeline.core.leases.change import Change, create, replace_retired, retire
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.cover import cover_all
from headrace.pipeline.core.order.parents import (
    Family,
    a_family,
    children_of_ends,
    counts_as_end,
    parents_first,
)
from headrace.pipeline.core.shards.checkpoint import LATEST, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, epoch_text, lease_key


def a_lease(
    stream: StreamId,
    shard: Shard,
    *,
    multi: bool,
    positions: Positions,
    sentinel: Checkpoint,
    owner: str | None = None,
) -> Lease:
    """A new row for a shard. Its checkpoint is the table's position; without a position, a word such as
    TRIM_HORIZON."""
    key = ShardKey(stream, shard.shard_id)
    position = positions.of(key)
    stands = position.checkpoint if position else None
    # A child of a shard that has a position starts at its oldest record, not at the stream's start.
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


def rows_of_stream(stream: StreamId, leases: Iterable[Lease]) -> tuple[Lease, ...]:
    """The rows of all lives of the stream. A row without a stream's name belongs to the only stream of its
    application."""
    name = stream.serialized.rpartition(":")[0]
    return tuple(row for row in leases if row.stream is None or row.stream.rpartition(":")[0] == name)


def is_of_this_life(stream: StreamId, row: Lease) -> bool:
    """Whether the row belongs to this life of the stream. A row that another program made has no epoch, and
    counts as belonging to it.
    """
    return row.stream in {None, stream.serialized} and row.stream_epoch in {None, stream.epoch}


def ends_lost(
    stream: StreamId, rows: Iterable[Lease], positions: Positions, *, listed: Iterable[Shard] = ()
) -> tuple[str, ...]:
    """Shards whose end Headrace once landed, but that don't count as ended in the table: the table was rolled
    back. Their rows have SHARD_END, so no run would ever read them and notice. `listed`: all shards that Kinesis
    lists. Without them the result also has shards that do count as ended, by a descendant that has no row.
    """
    rows = [row for row in rows if is_of_this_life(stream, row)]
    ended = [row for row in rows if row.has_ended and row.landed is not None and row.landed.is_end]
    keys = {row.shard_id: ShardKey(stream, row.shard_id) for row in ended}
    # Mostly the table has the ends themselves, and nobody has to ask for descendants.
    unsure = [shard_id for shard_id, key in keys.items() if not counts_as_end(key, positions, {})]
    if not unsure:
        return ()
    passed = a_family(stream, (), listed=listed, leases=rows, positions=positions).passed(positions)
    return tuple(
        sorted(shard_id for shard_id in unsure if not counts_as_end(keys[shard_id], positions, passed))
    )


def plan_shard_sync(
    family: Family,
    in_scope: Iterable[Shard],
    leases: Iterable[Lease],
    *,
    positions: Positions,
    multi: bool,
    sentinel: Checkpoint,
) -> list[Change]:
    """Create the missing rows and retire rows of earlier lives of the stream.

    A shard in the scope of the origin that hasn't ended in the table gets a row once one of its parents has ended, or
    once none of its parents is left to read. `sentinel`: the checkpoint in the row of a shard whose reading starts at
    the origin.
    """
    stream, mine = family.stream, rows_of_stream(family.stream, leases)
    retired = rows_of_earlier_lives(stream, mine)
    # The shard of a retired row may need a row of the present life.
    rows = {row.key for row in mine} - {row.key for row in retired}
    listed = {s.shard_id: s for s in in_scope}
    shards = listed | _unlisted(family, listed, positions)
    passed = family.passed(positions)
    changes: list[Change] = []
    for shard_id in parents_first(shards, family.parents):
        if lease_key(ShardKey(stream, shard_id), multi=multi) in rows:
            continue
        why = _why_created(shard_id, family, positions, passed)
        if why is not None:
            lease = a_lease(stream, shards[shard_id], multi=multi, positions=positions, sentinel=sentinel)
            changes.append(create(lease, why))
    return plan_turnover(stream, retired, changes, is_begun=sentinel != LATEST or bool(rows))


def plan_turnover(
    stream: StreamId, retired: Sequence[Lease], made: Iterable[Change], *, is_begun: bool
) -> list[Change]:
    """Retire the rows of earlier lives of the stream, and make the rows of the present one (I19 of docs/reference/protocol.md).

    `retired`: the rows of earlier lives. `made`: the changes that make rows. `is_begun`: there is a row of the present life, or
    none is needed.

    At LATEST, a row of an earlier life may be all that tells that the stream was read before, so that its present life is
    read from its beginning. Writes go out side by side, and a leader may die after any of them. So a row with the key of a
    new one is replaced by it in one write, and the others stay until a later sync finds a row of the present life.
    """
    # With a single stream the lease key is the shard id alone, so a row of an earlier life has the key of a new one.
    older = {row.key: row for row in retired}
    changes = [
        replace_retired(
            older[change.key], change.create, f"{_why_retired(stream, older[change.key])}; {change.why}"
        )
        if change.create is not None and change.key in older
        else change
        for change in made
    ]
    if not is_begun:
        return changes
    replaced = {change.key for change in changes}
    return [
        *(retire(row, _why_retired(stream, row)) for row in retired if row.key not in replaced),
        *changes,
    ]


def rows_of_earlier_lives(stream: StreamId, leases: Iterable[Lease]) -> tuple[Lease, ...]:
    # Without an epoch, nothing tells to which life a row belongs; it stays.
    return tuple(
        row
        for row in sorted(rows_of_stream(stream, leases), key=lambda row: row.key)
        if row.stream_epoch is not None and row.stream_epoch < stream.epoch
    )


def _why_retired(stream: StreamId, row: Lease) -> str:
    began = epoch_text(row.stream_epoch or 0)
    return f"{stream.name} was deleted and created again: this row belongs to the life that began at {began}"


def sync_token(stream: StreamId, leases: Iterable[Lease], positions: Positions) -> str | None:
    """A text that tells whether a shard sync is needed: if it is the same at a later tick, neither a sync nor a
    listing is needed then. None: a sync is needed.

    A shard becomes new only when a parent ends in the table, and a row is missing only if it was deleted; the
    text changes with both. It is None where the open rows of this life don't cover all hash keys, or don't name
    them: then only a listing tells which shards there are. It is None, too, while a shard that was never read
    names a parent of which nothing is known: a late listing may have hidden the parent, for whose end the shard
    waits. The shards are then listed once in `times.shard_sync`, 30 s, and not at each tick.

    The text shows neither a closed shard that a late listing hid while its children cover its hash keys and are
    read, nor that Kinesis has forgotten a parent for which a shard waited. For these, clean-up syncs all streams
    at its own interval.
    """
    mine = rows_of_stream(stream, leases)
    of_this_life = [row for row in mine if is_of_this_life(stream, row)]
    if not cover_all([row.hash_range for row in of_this_life if not row.has_ended]):
        return None
    with_row = {row.shard_id for row in of_this_life}
    parents = {parent for row in of_this_life if is_unread(row) for parent in row.parents}
    if any(positions.of(ShardKey(stream, parent)) is None for parent in parents - with_row):
        return None
    facts = (
        str(stream),
        sorted((row.key, row.stream_epoch or 0) for row in mine),
        sorted(
            (key.shard_id, position.ended, sorted(position.children))
            for key, position in positions.shards.items()
            if key.stream == stream
        ),
    )
    # 12 bytes, because Dagster keeps this text in the cursor of the sensor, which each tick writes.
    return hashlib.blake2b(repr(facts).encode(), digest_size=12).hexdigest()


def is_unread(row: Lease) -> bool:
    """Whether no worker has read the shard yet, as far as its row tells."""
    return row.looked_at is None and not (row.checkpoint.is_digits or row.has_ended)


def _unlisted(family: Family, listed: Mapping[str, Shard], positions: Positions) -> dict[str, Shard]:
    """Shards that no listing shows, though they have an open position or an END names them as children."""
    # The listing may be late, or Kinesis has forgotten the shard. It gets a row all the same: the run that tries to
    # read it reports the loss, and without a row nobody would learn of it.
    stream = family.stream
    being_read = {
        k.shard_id for k, position in positions.shards.items() if k.stream == stream and not position.ended
    }
    unlisted = (being_read | children_of_ends(stream, positions).keys()) - listed.keys()
    return {s: Shard(s, tuple(sorted(family.parents.get(s, ())))) for s in unlisted}


def _why_created(shard_id: str, family: Family, positions: Positions, passed: dict[str, str]) -> str | None:
    """Why the shard gets a row now; None where it gets none."""
    stream = family.stream
    if counts_as_end(ShardKey(stream, shard_id), positions, passed):
        return None
    if positions.of(ShardKey(stream, shard_id)) is not None:
        return "the lake table has a position for this shard: its row is rebuilt"
    to_read = [
        p
        for p in family.parents.get(shard_id, ())
        if p in family.in_scope
        or p in family.with_row
        or p in family.expected
        or positions.of(ShardKey(stream, p)) is not None
    ]
    if not to_read:
        return "no parent of this shard is left to read"
    # One ended parent is enough for a row. The run waits for the other parent of a merge before it reads.
    ended = sorted(p for p in to_read if counts_as_end(ShardKey(stream, p), positions, passed))
    return f"the shard's parent {ended[0]} has ended" if ended else None
