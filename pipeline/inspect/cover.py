"""Hash keys that no open lease covers, and child shards that were read before their parents' ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange


@dataclass(frozen=True, slots=True)
class UncoveredRange:
    """Hash keys of a stream that no open lease covers."""

    stream: str | None
    """None in an application of a single stream."""
    gap: HashRange


@dataclass(frozen=True, slots=True)
class EarlyChild:
    """A child shard that was read past its start though this parent shard hasn't ended."""

    child: str
    parent: str


def uncovered(leases: Iterable[Lease]) -> tuple[UncoveredRange, ...]:
    """All ranges of hash keys without an open lease, stream by stream.

    A stream that has an open lease without a hash range is left out: which keys that lease covers isn't known.
    """
    streams: dict[str, list[HashRange | None]] = defaultdict(list)
    for lease in leases:
        ranges = streams[_stream(lease)]
        if not lease.has_ended:
            ranges.append(lease.hash_range)
    return tuple(
        UncoveredRange(stream or None, gap)
        for stream in sorted(streams)
        if None not in streams[stream]
        for gap in _gaps(each for each in streams[stream] if each is not None)
    )


def _gaps(ranges: Iterable[HashRange]) -> list[HashRange]:
    """Ranges may overlap: the leases of parents and children exist together for a while."""
    found: list[HashRange] = []
    reached = -1
    for each in sorted(ranges):
        if each.start > reached + 1:
            found.append(HashRange(reached + 1, each.start - 1))
        reached = max(reached, each.end)
    if reached < MAX_HASH_KEY:
        found.append(HashRange(reached + 1, MAX_HASH_KEY))
    return found


def early_children(leases: Iterable[Lease]) -> tuple[EarlyChild, ...]:
    rows = {lease.key: lease for lease in leases}
    return tuple(
        EarlyChild(key, parent)
        for key, child in sorted(rows.items())
        if child.checkpoint.is_digits or child.has_ended
        for parent in sorted(_of_stream(child) + p for p in child.parents)
        if parent in rows and not rows[parent].has_ended
    )


def _of_stream(lease: Lease) -> str:
    """The stream's part of a lease's key, before the shard's id: empty in an application of a single stream."""
    return lease.key.removesuffix(lease.shard_id)


def _stream(lease: Lease) -> str:
    return lease.stream or _of_stream(lease).removesuffix(":")
