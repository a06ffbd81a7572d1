"""KCL's periodic auditor: it decides whether a stream needs a shard sync, because the stream's active leases
leave out hash keys.

The auditor acts only on a hole that it has seen several times in a row, because reshards and clean-ups make holes that
are gone soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange

CONFIDENCE = 3
"""The default of KCL's leasesRecoveryAuditorInconsistencyConfidenceThreshold."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A gap in the hash keys of a stream's leases. It is identified by the hash ranges before and after it; both
    are None if no active lease has a hash range.
    """

    before: HashRange | None = None
    after: HashRange | None = None


@dataclass(frozen=True, slots=True)
class SeenHole:
    """The hole that the last audit of a stream found, and how many audits in a row have found it."""

    hole: Hole | None = None
    times: int = 0


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    sync: bool
    hole: Hole | None
    remembered: SeenHole
    why: str


def find_hole(ranges: Iterable[HashRange]) -> Hole | None:
    """The first hole. Ranges may overlap: after a reshard the leases of parents and children exist at the same time."""
    every = sorted(ranges)
    if not every:
        return Hole()
    # As in KCL, `last` is the range with the highest start, although an earlier range may have a higher end.
    first, last = every[0], every[-1]
    if first.start != 0 or last.end != MAX_HASH_KEY:
        return Hole(first, last)
    covered, mark = first.end, first
    for hashes in every[1:]:
        if hashes.start > covered + 1:
            return Hole(mark, hashes)
        if hashes.start == covered + 1:
            covered, mark = hashes.end, hashes
        else:
            # An overlap: KCL reports a hole after it with the range before the overlap.
            covered = max(covered, hashes.end)
    return None


def with_ranges(leases: Iterable[Lease], listed: Mapping[str, HashRange]) -> tuple[Lease, ...]:
    """The leases, where each without a hash range gets the one that ListShards tells. `listed`: shard id -> range."""
    return tuple(
        lease
        if lease.hash_range is not None or lease.shard_id not in listed
        else replace(lease, hash_range=listed[lease.shard_id])
        for lease in leases
    )


def audit(leases: Iterable[Lease], remembered: SeenHole, *, confidence: int = CONFIDENCE) -> AuditVerdict:
    """Decides whether one stream needs a shard sync. `leases`: all leases of that stream; those without a
    hash range are ignored."""
    every = tuple(leases)
    if not every:
        return AuditVerdict(
            sync=True, hole=None, remembered=remembered, why="the stream has no lease: it is synced at once"
        )
    ranges = [lease.hash_range for lease in every if not lease.has_ended and lease.hash_range is not None]
    hole = find_hole(ranges)
    if hole is None:
        return AuditVerdict(
            sync=False, hole=None, remembered=SeenHole(), why="the leases cover all hash keys: nothing to do"
        )
    # As in KCL, another hole than before starts at 1, and an audit without a hole forgets the count.
    times = remembered.times + 1 if hole == remembered.hole else 1
    return AuditVerdict(
        sync=times >= confidence,
        hole=hole,
        remembered=SeenHole(hole, times),
        why=f"the same hole was seen {times} times in a row; a sync needs {confidence}",
    )
