"""Whether a lease is free, and whether it may be moved. KCL calls this isExpired, isAvailable and
blockedOnPendingCheckpoint."""

from __future__ import annotations

from headrace.pipeline.core.leases.lease import Lease

# As in KCL, a lease whose counter changed more than a year ago, or more than a year from now, counts as
# expired.
_A_YEAR_NS = 365 * 24 * 3600 * 10**9


def is_expired(moved_ns: int | None, *, duration_ns: int, at_ns: int) -> bool:
    """Whether a counter that was last seen to change at `moved_ns` has stood still for longer than the duration.
    None: the change was never seen.
    """
    if moved_ns is None:
        return True
    age = at_ns - moved_ns
    return abs(age) > _A_YEAR_NS or age > duration_ns


def is_available(owner: str | None, moved_ns: int | None, *, duration_ns: int, at_ns: int) -> bool:
    return owner is None or is_expired(moved_ns, duration_ns=duration_ns, at_ns=at_ns)


def is_blocked(lease: Lease, deadline_ns: int, *, at_ns: int, free: bool = False) -> bool:
    """Whether a pending handover forbids to move the lease now. `free`: the lease is expired or has no owner."""
    return not free and not lease.has_ended and lease.checkpoint_owner is not None and at_ns < deadline_ns
