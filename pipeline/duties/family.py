"""What a wave, and a person's repair, must know of a stream's shards: parents, children, and who is still in the way."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.core.lease import Lease
from pipeline.core.order import Family, a_family
from pipeline.core.position import Positions
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import is_of_this_life
from pipeline.ports import LeaseStore, ShardSource


def family_of(
    stream: StreamId,
    beginning: Iterable[ShardKey],
    *,
    held: Iterable[Lease],
    positions: Positions,
    source: ShardSource,
    leases: LeaseStore,
) -> Family:
    """Kinesis is asked for the shards only where a shard begins: it needs its parents. `held`: rows as read lately."""
    held, begins = tuple(held), tuple(beginning)
    if not begins:
        return a_family(stream, (), leases=held, positions=positions)
    origin = positions.origins[stream]
    # The whole listing first: a shard that only a later one shows must not look as if it were out of scope.
    whole = None if origin.start.at is None else source.list_shards(stream)
    scope = source.list_shards(stream, origin.start)
    every = scope if whole is None else whole
    known = a_family(stream, scope, listed=every, leases=held, positions=positions)
    rows = _rows_in_question(known, begins, held=held, positions=positions, leases=leases)
    return a_family(stream, scope, listed=every, leases=[*held, *rows], positions=positions)


def ended_before_origin(stream: StreamId, positions: Positions, source: ShardSource, key: ShardKey) -> bool:
    at = positions.origins[stream].start.at
    return at is not None and source.ended_before(key, at)


def _rows_in_question(
    known: Family,
    begins: Iterable[ShardKey],
    *,
    held: tuple[Lease, ...],
    positions: Positions,
    leases: LeaseStore,
) -> list[Lease]:
    """Rows of parents of which nothing else says that they are in the way or out of it, in few requests: at a cold
    start there are hundreds, trimmed long ago."""
    keys = {row.shard_id: row.key for row in held}
    settled = known.in_scope | known.expected | keys.keys() | known.passed(positions).keys()
    asked = sorted(
        keys[key.shard_id].removesuffix(key.shard_id) + parent
        for key in begins
        for parent in known.parents.get(key.shard_id, frozenset()) - settled
        if positions.of(ShardKey(known.stream, parent)) is None  # else the table's word is enough
    )
    if not asked:
        return []
    found = leases.get_many(sorted(set(asked)))
    # There, but not for us to understand: in the way, unless the table says END.
    odd = [Lease(row.key) for row in found.skipped]
    return [*odd, *(row for row in found.leases if is_of_this_life(known.stream, row))]
