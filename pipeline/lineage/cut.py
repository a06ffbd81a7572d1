"""The part of the ledgers that a person asks for: one shard by its name, and ranges with records of a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.generation import shard_of, with_chains
from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost, Range
from headrace.pipeline.core.shards.partition import ShardName


@dataclass(frozen=True, slots=True)
class Cut:
    shard: ShardName | None = None
    """The shard that is asked for. None: every shard."""
    arrivals: Window = ALL

    def filter(self, *, number: int | None = None) -> RangeFilter:
        """The filter for the lineage table. It may let more through than `of` does."""
        if self.shard is None:
            return RangeFilter(number=number)
        return RangeFilter(
            # With the generations: a typed table counts redrives of the shard under a name of their own.
            number=number,
            shards=with_chains(self.shard.shard_id),
            stream=self.shard.stream or None,
        )

    def of(self, entries: Iterable[LedgerEntry | Lost]) -> Iterator[LedgerEntry | Lost]:
        """Those of the ranges that are asked for. Lost parts of the history are always included."""
        for entry in entries:
            ranges = tuple(recorded for recorded in ranges_in(entry) if self._has(recorded))
            if ranges or isinstance(entry, Lost):
                yield _with(entry, ranges)

    def _has(self, recorded: Range) -> bool:
        is_of_shard = self.shard is None or self.shard.fits(shard_of(recorded.key))
        return is_of_shard and self.arrivals.has(recorded.first_arrival, recorded.last_arrival)


def newest(entries: Iterable[LedgerEntry | Lost], limit: int | None) -> tuple[list[LedgerEntry | Lost], int]:
    """The entries with the newest ranges, as many as the limit allows, oldest first; and the number of ranges
    that are left out.
    """
    every = list(entries)
    if limit is None:
        return every, 0
    chosen: list[LedgerEntry | Lost] = []
    room, left_out = limit, 0
    # From the newest entry on, because the limit is for the newest ranges.
    for entry in reversed(every):
        ranges = ranges_in(entry)
        some = ranges[max(0, len(ranges) - room) :]
        room -= len(some)
        left_out += len(ranges) - len(some)
        if some or isinstance(entry, Lost):
            chosen.append(_with(entry, some))
    return chosen[::-1], left_out


def ranges_in(entry: LedgerEntry | Lost) -> tuple[Range, ...]:
    return entry.ranges if isinstance(entry, Lost) else entry.page.ranges


def _with(entry: LedgerEntry | Lost, ranges: tuple[Range, ...]) -> LedgerEntry | Lost:
    if isinstance(entry, Lost):
        return replace(entry, ranges=ranges)
    return replace(entry, page=replace(entry.page, ranges=ranges))
