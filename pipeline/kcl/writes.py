"""KCL's two writes of the assignment, with KCL's conditions: no counter is compared, so that they succeed while the
present holder heartbeats; it notices at its next renewal. (Our own leader's write is `core.change.assign`.)
"""

from __future__ import annotations

from pipeline.core.change import Change
from pipeline.core.lease import Lease


def assign(read: Lease, to: str, why: str) -> Change:
    """Give the lease to a worker at once; a pending handover is over."""
    switched = (read.owner is not None and read.owner != to) or read.checkpoint_owner == to
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": read.checkpoint_owner},
        put={"owner": to},
        add={"counter": 1, "owner_switches": 1} if switched else {"counter": 1},
        remove=frozenset({"checkpoint_owner"}),
    )


def begin_handover(read: Lease, to: str, why: str) -> Change:
    """Name the next owner and let the present one finish. Its counter isn't touched: its heartbeat goes on."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": None},
        put={"owner": to, "checkpoint_owner": read.owner},
    )
