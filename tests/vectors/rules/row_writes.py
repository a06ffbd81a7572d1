"""The writes of KCL on a lease row that only KCL makes, with KCL's conditions.

write                  | must still be true
-----------------------+--------------------------------------------------------------
renew                  | the counter; no handover, unless the holder has seen that there is one
checkpoint, prepare    | the counter
assign, evict          | owner and checkpoint owner. Not the counter: the holder's renewals change it all the time
begin a handover       | owner, no handover yet. The write leaves the counter alone, so the holder's next renewal
                       | holds
children               | the row exists
"""

from __future__ import annotations

from typing import Any

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.kcl.writes import switch_counts


def kcl_assign(read: Lease, to: str, why: str) -> Change:
    """Gives the lease to a worker at once, and ends a pending handover."""
    return Change(
        read.key,
        why,
        requires=_owners(read),
        put={"owner": to},
        add=switch_counts(read, to),
        remove=frozenset({"checkpoint_owner"}),
        kind=ChangeKind.ASSIGN,
    )


def begin_handover(read: Lease, to: str, why: str) -> Change:
    """Names the next owner, and lets the present owner finish. The counter stays, so that the owner can go on
    renewing."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": None},
        put={"owner": to, "checkpoint_owner": read.owner},
        kind=ChangeKind.INITIATE,
    )


def evict(read: Lease, why: str) -> Change:
    """Takes the lease away from its holder. During a handover the lease goes to the next owner."""
    gone = {"checkpoint_owner"} if read.checkpoint_owner else {"owner", "checkpoint_owner"}
    return Change(
        read.key,
        why,
        requires=_owners(read),
        add={"counter": 1},
        remove=frozenset(gone),
        kind=ChangeKind.EVICT,
    )


def renew(read: Lease, *, throughput_kbps: float | None = None) -> Change:
    # A holder that has seen its lease being handed over renews it until it has finished, so the condition falls away.
    no_handover: dict[str, Any] = {} if read.checkpoint_owner else {"checkpoint_owner": None}
    return Change(
        read.key,
        f"{read.holder} renews the lease",
        requires={"counter": read.counter, **no_handover},
        put={} if throughput_kbps is None else {"throughput_kbps": throughput_kbps},
        add={"counter": 1},
        kind=ChangeKind.RENEW,
    )


def kcl_checkpoint(read: Lease, position: Checkpoint) -> Change:
    """Writes a checkpoint in one step, and removes a prepared checkpoint."""
    return Change(
        read.key,
        f"checkpoint at {position}",
        requires={"counter": read.counter},
        put={
            "checkpoint": position,
            "owner_switches": 0,
            **_known(read),
        },
        add={"counter": 1},
        remove=frozenset({"pending", "pending_state"}),
        kind=ChangeKind.CHECKPOINT,
    )


def kcl_prepare(read: Lease, position: Checkpoint, *, state: bytes | None = None) -> Change:
    """Writes the checkpoint that the application prepares. The row's own checkpoint stays until the second step."""
    return Change(
        read.key,
        f"prepare a checkpoint at {position}",
        requires={"counter": read.counter},
        put={"pending": position, "pending_state": state, **_known(read)},
        add={"counter": 1},
        kind=ChangeKind.PREPARE,
    )


def _known(read: Lease) -> dict[str, Any]:
    """The attributes that KCL writes again with each checkpoint, if the holder's copy of the row has them."""
    shard_facts = {
        "children": read.children or None,
        "hash_range": read.hash_range,
        "stream": read.stream,
        "shard": read.shard,
    }
    return {name: value for name, value in shard_facts.items() if value is not None}


def kcl_note_children(read: Lease, children: frozenset[str]) -> Change:
    """Notes the children at the end of a shard. KCL only requires that the row exists; Headrace's own write
    (`note_children` in pipeline/core/leases/change.py) requires more."""
    return Change(
        read.key, "the children of its shard", put={"children": children}, kind=ChangeKind.NOTE_CHILDREN
    )


def _owners(read: Lease) -> dict[str, Any]:
    return {"owner": read.owner, "checkpoint_owner": read.checkpoint_owner}
