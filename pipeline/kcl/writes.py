"""The writes of KCL on a lease row that Headrace makes too, with KCL's conditions. In tables that KCL workers share, a worker in
`kcl.mode: 2.x` takes leases by KCL's own write. (`pipeline/core/leases/change.py` has the writes of Headrace.)

    write                  | must still be true
    -----------------------+--------------------------------------------------------------
    take, steal (2.x)      | the counter
    hash range             | the row exists
"""

from __future__ import annotations

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.shard import HashRange


def take(read: Lease, me: str, why: str = "", *, steals: bool = False) -> Change:
    """A 2.x worker takes an expired lease, or steals one from a worker with too many. The claim of a Headrace
    run is removed, so that this run's next write on the row is refused (I2)."""
    return Change(
        read.key,
        why or f"{me} takes the lease",
        requires={"counter": read.counter},
        put={"owner": me},
        add=switch_counts(read, me),
        remove=frozenset({"checkpoint_owner"} | ({"run_claim"} if read.run_claim else set())),
        kind=ChangeKind.STEAL if steals else ChangeKind.TAKE,
    )


def note_hash_range(read: Lease, hash_range: HashRange) -> Change:
    """KCL's auditor adds the hash range to rows that older versions of KCL made without it."""
    return Change(
        read.key,
        "the row gets the hash range of its shard",
        put={"hash_range": hash_range},
        kind=ChangeKind.NOTE_RANGE,
    )


def switch_counts(read: Lease, to: str) -> dict[str, int]:
    """What a write adds to the row's counters when it gives the lease to a worker."""
    # KCL counts a switch too when the lease goes back to the worker that was handing it over.
    switched = (read.owner is not None and read.owner != to) or read.checkpoint_owner == to
    return {"counter": 1, "owner_switches": 1} if switched else {"counter": 1}
