"""Finds hash keys that no open lease covers, and child shards that were read before their parents' ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.core.shards.stream import name_of_serialized
from headrace.pipeline.core.shards.switched_off import table_of


@dataclass(frozen=True, slots=True)
class UncoveredRange:
    """Hash keys of a stream that no open lease covers."""

    stream: str | None
    """The stream's part of the lease keys; None in an application of a single stream."""
    gap: HashRange


@dataclass(frozen=True, slots=True)
class FinishedStream:
    """A stream of which every lease has ended."""

    stream: str | None
    """The stream's part of the lease keys; None in an application of a single stream."""
    leases: int


@dataclass(frozen=True, slots=True)
class EarlyChild:
    """A child shard that was read past its start though this parent shard hasn't ended."""

    child: str
    parent: str


def uncovered(leases: Iterable[Lease]) -> tuple[UncoveredRange, ...]:
    """All ranges of hash keys without an open lease, stream by stream.

    A stream with an open lease that has no hash range is left out, because it isn't known which keys that lease
    covers. So is a stream of which no lease has a hash range.
    """
    streams: dict[str, list[HashRange | None]] = defaultdict(list)
    with_keys: set[str] = set()
    for lease in leases:
        ranges = streams[_stream(lease)]
        if lease.hash_range is not None:
            with_keys.add(_stream(lease))
        if not lease.has_ended:
            ranges.append(lease.hash_range)
    return tuple(
        UncoveredRange(stream or None, gap)
        for stream in sorted(with_keys)
        # A lease without a range may cover any hash keys, so that no gap of its stream is certain.
        if None not in streams[stream]
        for gap in _gaps(hashes for hashes in streams[stream] if hashes is not None)
    )


def finished(leases: Iterable[Lease]) -> tuple[FinishedStream, ...]:
    """The streams without hash keys of which every lease has ended. Of a DynamoDB table, only the newest stream
    counts.
    """
    streams: dict[str, list[Lease]] = defaultdict(list)
    for lease in leases:
        streams[_stream(lease)].append(lease)
    newest: dict[str, str] = {}
    for stream in sorted(streams):
        newest[_table(stream)] = stream
    return tuple(
        FinishedStream(stream or None, len(of_stream))
        for stream, of_stream in sorted(streams.items())
        if newest[_table(stream)] == stream
        and all(lease.has_ended and lease.hash_range is None for lease in of_stream)
    )


def _table(stream: str) -> str:
    """The table of which this is a stream, and the stream itself where it is no table's."""
    return table_of(name_of_serialized(stream)) or stream


def _gaps(ranges: Iterable[HashRange]) -> list[HashRange]:
    """The hash keys between the ranges. Ranges may overlap, because leases of parents and children coexist
    for a while."""
    gaps: list[HashRange] = []
    reached = -1
    for hashes in sorted(ranges):
        if hashes.start > reached + 1:
            gaps.append(HashRange(reached + 1, hashes.start - 1))
        reached = max(reached, hashes.end)
    if reached < MAX_HASH_KEY:
        gaps.append(HashRange(reached + 1, MAX_HASH_KEY))
    return gaps


def children_read_early(leases: Iterable[Lease]) -> tuple[EarlyChild, ...]:
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
