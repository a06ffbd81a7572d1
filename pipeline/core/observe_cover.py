"""What the leases of a table fail to cover, and children that were begun too early."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.core.lease import Lease
from pipeline.core.shard import MAX_HASH_KEY, HashRange


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Hash keys of a stream that no open lease covers."""

    stream: str | None
    """None in an application of a single stream."""
    gap: HashRange


@dataclass(frozen=True, slots=True)
class Early:
    """A child that is past its start though this parent hasn't ended."""

    child: str
    parent: str


def uncovered(leases: Iterable[Lease]) -> tuple[Uncovered, ...]:
    """Every gap, not only the first, stream by stream; none of a stream with an open lease of unknown range."""
    streams: dict[str, list[HashRange | None]] = defaultdict(list)
    for lease in leases:
        ranges = streams[_stream(lease)]
        if not lease.has_ended:
            ranges.append(lease.hash_range)
    return tuple(
        Uncovered(stream or None, gap)
        for stream in sorted(streams)
        if None not in streams[stream]
        for gap in _gaps(each for each in streams[stream] if each is not None)
    )


def _gaps(ranges: Iterable[HashRange]) -> list[HashRange]:
    """Overlaps are fine: parents and children are both there for a while."""
    found: list[HashRange] = []
    reached = -1
    for each in sorted(ranges):
        if each.start > reached + 1:
            found.append(HashRange(reached + 1, each.start - 1))
        reached = max(reached, each.end)
    if reached < MAX_HASH_KEY:
        found.append(HashRange(reached + 1, MAX_HASH_KEY))
    return found


def early_children(leases: Iterable[Lease]) -> tuple[Early, ...]:
    rows = {lease.key: lease for lease in leases}
    return tuple(
        Early(key, parent)
        for key, child in sorted(rows.items())
        if child.checkpoint.is_digits or child.has_ended
        for parent in sorted(_of_stream(child) + p for p in child.parents)
        if parent in rows and not rows[parent].has_ended
    )


def _of_stream(lease: Lease) -> str:
    """What a lease's key says before the shard's id: nothing in an application of a single stream."""
    return lease.key.removesuffix(lease.shard_id)


def _stream(lease: Lease) -> str:
    return lease.stream or _of_stream(lease).removesuffix(":")
