"""What a wave, and a person's command, must know of the shards of a stream: parents, children, and which of them are
unread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import WITHIN_THE_SECOND
from headrace.pipeline.core.order.parents import Family, a_family
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.ports.reading import ShardSource


def family_of(
    stream: StreamId,
    unread: Iterable[ShardKey],
    *,
    held: Iterable[Lease],
    positions: Positions,
    source: ShardSource,
    leases: LeaseStore,
) -> Family:
    """The family of a stream. Kinesis lists the shards only if some of them are `unread`, because those need their
    parents.

    `held`: rows of the stream that were read a moment ago.
    """
    held, unread = tuple(held), tuple(unread)
    if not unread:
        return a_family(stream, (), leases=held, positions=positions)
    origin = positions.origins[stream]
    # All shards are listed before the shards in scope. In the other order, a shard that only the second listing shows
    # would look as if it were out of the origin's scope.
    all_shards = None if origin.start.at is None else source.list_shards(stream)
    scope = source.list_shards(stream, origin.start)
    every = scope if all_shards is None else all_shards
    family = a_family(stream, scope, listed=every, leases=held, positions=positions)
    rows = _rows_of_undecided_parents(family, unread, held=held, positions=positions, leases=leases)
    return a_family(stream, scope, listed=every, leases=[*held, *rows], positions=positions)


SHORTEST_RETENTION = timedelta(hours=24)
"""The shortest retention that a stream can have had. Today's alone tells nothing: it may have been shorter before."""


@dataclass(frozen=True, slots=True)
class SinceOrigin:
    """Asks Kinesis which records of a stream it still has since the stream's origin."""

    stream: StreamId
    positions: Positions
    source: ShardSource

    def is_gone(self, key: ShardKey) -> bool:
        """Whether Kinesis denies the shard, and it can have left the stream. No shard leaves a stream that is younger than its
        retention and the shortest one that Kinesis allows: there the denial is false."""
        if not self.source.is_gone(key):
            return False
        # Hundreds of shards may have left an old stream: to describe it for each of them would be throttled.
        aws_time = self.source.aws_now()
        if aws_time is not None and aws_time - self.stream.created > SHORTEST_RETENTION:
            return True
        facts = self.source.describe(self.stream.arn)
        age = facts.asked + WITHIN_THE_SECOND - self.stream.created
        return facts.stream != self.stream or age > min(facts.retention, SHORTEST_RETENTION)

    def ended_before(self, key: ShardKey) -> bool:
        """Whether the shard is closed, and Kinesis has no record of it since the origin."""
        start = self.positions.origins[self.stream].start.at
        # An origin without a time is the beginning of the stream, before which nothing can have ended.
        return start is not None and self.source.ended_before(key, start)

    def holds_all(self) -> bool:
        """Whether no record since the origin can have left the stream by now."""
        start = self.positions.origins[self.stream].start.at
        return start is not None and self.keeps(start)

    def keeps(self, moment: datetime) -> bool:
        """Whether Kinesis still has every record that the stream had at this moment, by Kinesis's clock."""
        facts = self.source.describe(self.stream.arn)
        return facts.stream == self.stream and moment > facts.asked + WITHIN_THE_SECOND - facts.retention


def _rows_of_undecided_parents(
    family: Family,
    unread: Iterable[ShardKey],
    *,
    held: tuple[Lease, ...],
    positions: Positions,
    leases: LeaseStore,
) -> list[Lease]:
    """Rows of the parents for which neither the listing, nor the table, nor another row tells whether they are still to
    be read. They are read in few requests: at a first start there can be hundreds of parents that Kinesis has dropped
    long ago."""
    keys = {row.shard_id: row.key for row in held}
    settled = family.in_scope | family.expected | keys.keys() | family.passed(positions).keys()
    keys_to_read = sorted(
        keys[key.shard_id].removesuffix(key.shard_id) + parent
        for key in unread
        for parent in family.parents.get(key.shard_id, frozenset()) - settled
        if positions.of(ShardKey(family.stream, parent)) is None  # a position decides without the row
    )
    if not keys_to_read:
        return []
    listing = leases.get_many(sorted(set(keys_to_read)))
    # A row that isn't understood may be of a parent that isn't read to its end: the child waits until the table has the
    # END.
    not_understood = [Lease(row.key) for row in listing.skipped]
    return [*not_understood, *(row for row in listing.leases if is_of_this_life(family.stream, row))]
