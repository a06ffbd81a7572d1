"""Whether a refused write on a lease row was this process's own write, whose answer was lost."""

from __future__ import annotations

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease

_MARKS = frozenset({"wanted_by", "assigned_at"})
"""Fields whose value tells which process wrote it: a waiting run's claim, and the time of a leader's assignment."""


def is_own_write(change: Change, row: Lease | None) -> bool:
    """Whether a write was refused only because it had been applied before, and the answer to it was lost.

    The row has to show exactly this write: a value that no other process writes, or the counter that the write
    leaves, and every value that the write puts.
    """
    if row is None or not change.put or not _is_marked(change, row):
        return False
    return all(getattr(row, name) == value for name, value in change.put.items()) and not any(
        getattr(row, name) for name in change.remove
    )


def _is_marked(change: Change, row: Lease) -> bool:
    # A claim has an id that is new with each attempt of a run, so no other process writes it (D7).
    run_claim = change.put.get("run_claim", change.requires.get("run_claim"))
    if run_claim is not None:
        return bool(row.run_claim == run_claim)
    counter = change.requires.get("counter")
    if counter is not None and "owner" in change.put:
        return bool(row.counter == counter + change.add.get("counter", 0))
    return counter is None and not _MARKS.isdisjoint(change.put)
