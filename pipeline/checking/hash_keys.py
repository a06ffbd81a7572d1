"""Finds hash keys that belong to no open lease, so that nobody reads records with them. Pure functions on values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from headrace.pipeline.checking.lag import stream_of
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange


def unread(rows: Iterable[Lease]) -> Iterator[tuple[str, HashRange]]:
    """Ranges of hash keys without an open lease, each with the name of its stream, which is empty in an
    application with a single stream. A stream with an open lease of unknown hash keys is left out, because that
    lease may have any of them. So is a stream of which no lease has hash keys, as that of a DynamoDB table.
    """
    open_ranges: dict[str, list[HashRange | None]] = defaultdict(list)
    with_keys: set[str] = set()
    for row in rows:
        ranges = open_ranges[stream_of(row.key)]
        if row.hash_range is not None:
            with_keys.add(stream_of(row.key))
        if not row.has_ended:
            ranges.append(row.hash_range)
    for stream, ranges in sorted(open_ranges.items()):
        if stream not in with_keys:
            continue
        known = [keys for keys in ranges if keys is not None]
        if len(known) == len(ranges):
            yield from ((stream, gap) for gap in _between(known))


def _between(ranges: Iterable[HashRange]) -> Iterator[HashRange]:
    """Ranges of parents and children may overlap."""
    begin = 0
    for keys in sorted(ranges):
        if keys.start > begin:
            yield HashRange(begin, keys.start - 1)
        begin = max(begin, keys.end + 1)
    if begin <= MAX_HASH_KEY:
        yield HashRange(begin, MAX_HASH_KEY)
