"""KCL's own writes on a lease row, with KCL's conditions: for tables that its workers share, where a write of ours must
look like one of theirs. (Writes between our own workers: `core.change`.)

    write                  | must still be true
    -----------------------+--------------------------------------------------------------
    take (2.x)             | the counter
    renew                  | the counter; no handover, unless the reader knows of one
    checkpoint, prepare    | the counter
    assign, evict          | owner and checkpoint owner; no counter, so that the holder's heartbeat is no obstacle
    begin a handover       | owner, no handover yet; the counter stays, so that the heartbeat goes on
    children, hash range   | the row exists
"""

from __future__ import annotations

from typing import Any

from pipeline.core.change import Change, ChangeKind
from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.shard import HashRange


def assign(read: Lease, to: str, why: str) -> Change:
    """Give the lease to a worker at once; a pending handover is over."""
    return Change(
        read.key,
        why,
        requires=_owners(read),
        put={"owner": to},
        add=_counts(read, to),
        remove=frozenset({"checkpoint_owner"}),
        kind=ChangeKind.ASSIGN,
    )


def begin_handover(read: Lease, to: str, why: str) -> Change:
    """Name the next owner and let the present one finish. Its counter isn't touched: its heartbeat goes on."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": None},
        put={"owner": to, "checkpoint_owner": read.owner},
        kind=ChangeKind.INITIATE,
    )


def evict(read: Lease, why: str) -> Change:
    """Take the lease from its holder. In a pending handover the next owner keeps it."""
    gone = {"checkpoint_owner"} if read.checkpoint_owner else {"owner", "checkpoint_owner"}
    return Change(
        read.key,
        why,
        requires=_owners(read),
        add={"counter": 1},
        remove=frozenset(gone),
        kind=ChangeKind.EVICT,
    )


def take(read: Lease, me: str, why: str = "") -> Change:
    """A 2.x worker helps itself to a lease that expired, or that somebody has too many of. A run of ours is over with it."""
    return Change(
        read.key,
        why or f"{me} takes it",
        requires={"counter": read.counter},
        put={"owner": me},
        add=_counts(read, me),
        remove=frozenset({"checkpoint_owner"} | ({"run_claim"} if read.run_claim else set())),
        kind=ChangeKind.TAKE,
    )


def renew(read: Lease, *, throughput_kbps: float | None = None) -> Change:
    known: dict[str, Any] = {} if read.checkpoint_owner else {"checkpoint_owner": None}
    return Change(
        read.key,
        f"{read.holder} lives",
        requires={"counter": read.counter, **known},
        put={} if throughput_kbps is None else {"throughput_kbps": throughput_kbps},
        add={"counter": 1},
        kind=ChangeKind.RENEW,
    )


def checkpoint(read: Lease, at: Checkpoint) -> Change:
    """A plain one clears what was prepared."""
    return Change(
        read.key,
        f"checkpoint at {at}",
        requires={"counter": read.counter},
        put={
            "checkpoint": at,
            "owner_switches": 0,
            **_known(read),
        },
        add={"counter": 1},
        remove=frozenset({"pending", "pending_state"}),
        kind=ChangeKind.CHECKPOINT,
    )


def prepare(read: Lease, at: Checkpoint, *, state: bytes | None = None) -> Change:
    """The checkpoint stays where it is until the application commits to this one."""
    return Change(
        read.key,
        f"about to checkpoint at {at}",
        requires={"counter": read.counter},
        put={"pending": at, "pending_state": state, **_known(read)},
        add={"counter": 1},
        kind=ChangeKind.PREPARE,
    )


def _known(read: Lease) -> dict[str, Any]:
    """What the holder knows of the shard goes with each checkpoint, whether the row has it or not."""
    known = {
        "children": read.children or None,
        "hash_range": read.hash_range,
        "stream": read.stream,
        "shard": read.shard,
    }
    return {name: value for name, value in known.items() if value is not None}


def note_hash_range(read: Lease, hash_range: HashRange) -> Change:
    """The auditor fills in what rows of older versions lack."""
    return Change(
        read.key, "its shard's hash range", put={"hash_range": hash_range}, kind=ChangeKind.NOTE_RANGE
    )


def note_children(read: Lease, children: frozenset[str]) -> Change:
    """At the end of a shard; KCL asks for nothing but the row. (Ours: `core.change.note_children`.)"""
    return Change(read.key, "its shard's children", put={"children": children}, kind=ChangeKind.NOTE_CHILDREN)


def _owners(read: Lease) -> dict[str, Any]:
    return {"owner": read.owner, "checkpoint_owner": read.checkpoint_owner}


def _counts(read: Lease, to: str) -> dict[str, int]:
    switched = (read.owner is not None and read.owner != to) or read.checkpoint_owner == to
    return {"counter": 1, "owner_switches": 1} if switched else {"counter": 1}
