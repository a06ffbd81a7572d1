"""Is a lease free, and may it be moved? KCL's words for it: isExpired, isAvailable, blockedOnPendingCheckpoint."""

from __future__ import annotations

from pipeline.core.lease import Lease

_A_YEAR_NS = 365 * 24 * 3600 * 10**9
"""An age beyond it, either way, is a broken clock; the lease counts as expired."""


def is_expired(moved_ns: int | None, *, duration_ns: int, at_ns: int) -> bool:
    """Whether a counter that last moved at `moved_ns` has stood still for too long. Exactly the duration isn't."""
    if moved_ns is None:
        return True
    age = at_ns - moved_ns
    return abs(age) > _A_YEAR_NS or age > duration_ns


def is_available(owner: str | None, moved_ns: int | None, *, duration_ns: int, at_ns: int) -> bool:
    return owner is None or is_expired(moved_ns, duration_ns=duration_ns, at_ns=at_ns)


def is_blocked(lease: Lease, deadline_ns: int, *, at_ns: int, free: bool = False) -> bool:
    """Whether a pending handover forbids to move the lease now. `free`: it is expired or unassigned."""
    return not free and not lease.has_ended and lease.checkpoint_owner is not None and at_ns < deadline_ns
