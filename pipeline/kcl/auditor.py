"""The periodic auditor: do the active leases cover all hash keys, and if not, is it worth a sync?

A hole must be seen several times running before anything is done: reshards and clean-ups make short-lived ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pipeline.core.lease import Lease
from pipeline.core.shard import MAX_HASH_KEY, HashRange

CONFIDENCE = 3
"""KCL's leasesRecoveryAuditorInconsistencyConfidenceThreshold."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Known by the ranges around it; by none where no active lease has a range at all."""

    before: HashRange | None = None
    after: HashRange | None = None


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What the auditor remembers of one stream between two looks."""

    hole: Hole | None = None
    seen: int = 0


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    sync: bool
    hole: Hole | None
    remembered: Suspicion
    why: str


def find_hole(ranges: Iterable[HashRange]) -> Hole | None:
    """The first hole. Overlaps are fine: parents and children are both there for a while."""
    every = sorted(ranges)
    if not every:
        return Hole()
    # As in KCL: `last` in order of starts, though an earlier range may reach further.
    first, last = every[0], every[-1]
    if first.start != 0 or last.end != MAX_HASH_KEY:
        return Hole(first, last)
    covered, mark = first.end, first
    for each in every[1:]:
        if each.start > covered + 1:
            return Hole(mark, each)
        if each.start == covered + 1:
            covered, mark = each.end, each
        else:
            covered = max(covered, each.end)  # an overlap: the mark stays where the hole would be reported
    return None


def with_ranges(leases: Iterable[Lease], listed: Mapping[str, HashRange]) -> tuple[Lease, ...]:
    """The leases with their missing hash ranges filled in from an unfiltered listing (shard id -> range)."""
    return tuple(
        lease
        if lease.hash_range is not None or lease.shard_id not in listed
        else replace(lease, hash_range=listed[lease.shard_id])
        for lease in leases
    )


def audit(leases: Iterable[Lease], remembered: Suspicion, *, confidence: int = CONFIDENCE) -> AuditVerdict:
    """Whether one stream needs a sync. Leases whose range nobody knows are ignored."""
    every = tuple(leases)
    if not every:
        return AuditVerdict(
            sync=True, hole=None, remembered=remembered, why="the stream has no lease: synced at once"
        )
    ranges = [lease.hash_range for lease in every if not lease.has_ended and lease.hash_range is not None]
    hole = find_hole(ranges)
    if hole is None:
        return AuditVerdict(
            sync=False, hole=None, remembered=Suspicion(), why="the leases cover all hash keys: nothing to do"
        )
    seen = remembered.seen + 1 if hole == remembered.hole else 1
    return AuditVerdict(
        sync=seen >= confidence,
        hole=hole,
        remembered=Suspicion(hole, seen),
        why=f"the same hole was seen {seen} of {confidence} times running",
    )
