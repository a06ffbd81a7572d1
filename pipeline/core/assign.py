"""Who reads what: unowned leases go evenly to the workers that beat.

Moving leases that have an owner (balancing, take-over, handover) is not built yet: a restarted worker finds
its own leases again.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.core.change import Change, assign
from pipeline.core.lease import Lease


def plan_assign(leases: Iterable[Lease], workers: Iterable[str]) -> list[Change]:
    """The same input gives the same plan: the worker with the fewest open leases is next, then the lower id."""
    rows = [lease for lease in leases if not lease.has_ended]
    load = {worker: sum(lease.holder == worker for lease in rows) for worker in workers}
    changes: list[Change] = []
    if not load:
        return changes
    for lease in sorted((r for r in rows if r.holder is None), key=lambda r: r.key):
        to = min(load, key=lambda worker: (load[worker], worker))
        load[to] += 1
        changes.append(assign(lease, to, f"unowned -> {to}, now holding {load[to]}"))
    return changes
