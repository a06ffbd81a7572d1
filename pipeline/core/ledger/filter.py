"""Which ranges of the lineage table a reader asks for, so that the reader needn't hold all of them in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.shards.stream import ShardKey


@dataclass(frozen=True, slots=True)
class Joining:
    """Allows ranges of one shard that follow each other to be returned as one joined range (`Range.joined`), so
    that a reader of a long history needn't hold each of them. Only ranges without anything special are joined: of
    the kind `landed`, `parsed` or `copied`, forward, not at the end of the shard, and with a complete accounting
    of their rows.

    The first and the newest range of a shard are returned as they are, and so is each range that doesn't begin
    where the one before ended. Ranges with rows and ranges without any are never joined to each other. A table
    may also join nothing.
    """

    below: int
    """The sequence number of a snapshot: only ranges of snapshots before it are joined."""
    by_day: bool = False
    """Whether only ranges are joined whose first records arrived on one day (UTC), by
    `headrace.pipeline.core.ledger.arrivals.first_day`. Of ranges with rows these are only such that tell when their
    first record arrived."""
    is_aside: bool = False
    """Whether these are the ledgers of a quarantine table, of whose ranges a reader asks only how many rows each has:
    it may have none, and the accounting in it is the typed table's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeFilter:
    """The conditions of a reader of the lineage table: ranges are returned that meet all of them. None: no
    condition.

    Only ranges and removed ENDs are left out. Origins and lost parts are always returned, up to the snapshot that
    was asked for; a ledger of which nothing is left isn't returned.
    """

    stream: str | None = None
    """Name of the stream, in any of its lives."""
    shards: frozenset[str] | None = None
    """The ids of the shards that are asked for. Shards of several streams, and of several lives of one, have the same
    ids."""
    kinds: frozenset[Kind] | None = None
    """The kinds of the ranges that are asked for. Ranges that were derived for a lost part are asked for whatever their
    kind is."""
    number: int | None = None
    """Only ranges that may have the record with this sequence number: it is neither behind their end nor before their
    beginning."""
    arrived: tuple[datetime, datetime] | None = None
    """Two moments: only ranges are asked for whose first record arrived at the first of them or later, and before the
    second one."""
    above: int | None = None
    """An Iceberg sequence number: only ledgers of snapshots after the one that has it are asked for."""
    upto: int | None = None
    """An Iceberg sequence number: only ledgers of snapshots up to the one of the lake table that has it are asked
    for."""
    joining: Joining | None = None
    """Which ranges may come as one; not together with other conditions than `above` and `upto`."""

    @property
    def has_all_ranges(self) -> bool:
        """Whether no range is filtered out, so that each ledger is returned, also one without any range."""
        conditions = (self.stream, self.shards, self.kinds, self.number, self.arrived)
        return all(condition is None for condition in conditions)

    def of(self, entry: LedgerEntry | Lost) -> LedgerEntry | Lost | None:
        """The part of this ledger or lost part that meets the conditions; None where nothing does."""
        if self.upto is not None and entry.sequence > self.upto:
            return None
        if self.above is not None and entry.sequence <= self.above:
            return None
        if self.has_all_ranges:
            return entry
        if isinstance(entry, Lost):
            return replace(
                entry, ranges=tuple(recorded for recorded in entry.ranges if self._has_place(recorded))
            )
        page = entry.page
        ranges = tuple(
            recorded for recorded in page.ranges if self._has_kind(recorded) and self._has_place(recorded)
        )
        dropped = tuple(key for key in page.dropped if self._has_shard(key))
        # Origins always stay, because no reader may take a part without ledgers for one without ranges.
        if not (ranges or page.origins or dropped):
            return None
        if len(ranges) == len(page.ranges) and len(dropped) == len(page.dropped):
            return entry
        return replace(entry, page=replace(page, ranges=ranges, dropped=dropped))

    def _has_kind(self, recorded: Range) -> bool:
        return self.kinds is None or recorded.kind in self.kinds

    def _has_place(self, recorded: Range) -> bool:
        if self.arrived is not None and not _arrived(recorded, *self.arrived):
            return False
        return self._has_shard(recorded.key) and (self.number is None or _may_have(recorded, self.number))

    def _has_shard(self, key: ShardKey) -> bool:
        return (self.shards is None or key.shard_id in self.shards) and self.stream in (None, key.stream.name)


ALL_RANGES = RangeFilter()


def _arrived(recorded: Range, since: datetime, before: datetime) -> bool:
    return recorded.first_arrival is not None and since <= recorded.first_arrival < before


def _may_have(recorded: Range, number: int) -> bool:
    after, upto = recorded.after, recorded.upto
    begins = -1 if after is None or after.sequence is None else after.sequence
    # Both ends count: a range may begin or end within an aggregate, whose user records share one number.
    return upto.sequence is not None and begins <= number <= upto.sequence
