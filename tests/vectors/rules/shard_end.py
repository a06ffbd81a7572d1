"""A shard's life as KCL's consumer sees it: may reading start, may the reason to stop change, and how does the shard end?

The steps of the end are in this order, so that the next try completes them after a crash:

    children's leases (TRIM_HORIZON) -> childShardIds in the own row -> the application's SHARD_END -> clean-up
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.errors import Unknown


class Reason(IntEnum):
    """Why a consumer stops. A reason is replaced only by a reason with a higher number."""

    REQUESTED = 1
    SHARD_END = 2
    LEASE_LOST = 3


def may_become(reason: Reason | None, new: Reason | None) -> bool:
    return new is not None and (reason is None or new > reason)


def is_blocked_on_parents(parents: Iterable[Checkpoint | None]) -> bool:
    """`parents`: the checkpoint of each parent's lease. None if there is no such lease; the parent counts as
    finished then."""
    return any(at is not None and not at.is_end for at in parents)


def is_whole(next_iterator: str | None, parents_of_children: Sequence[Sequence[str] | None]) -> bool:
    """Whether an answer to GetRecords is complete: it has a next iterator, or children that name their parents.

    For any other answer the request is repeated with the same iterator.
    """
    goes_on, ends = next_iterator is not None, bool(parents_of_children)
    return goes_on != ends and all(parents_of_children)


class ShardEnding(Enum):
    """What a consumer does next when its shard has ended."""

    END = "end"
    """The children have leases, and the application may write SHARD_END."""
    RETRY = "retry"
    """The other parent isn't ready: wait and try again, still holding the lease."""
    GIVE_UP = "give up"
    """Drop the lease; another worker tries."""


@dataclass(frozen=True, slots=True)
class EndPlan:
    """What a consumer does at the end of its shard, and which leases it makes first."""

    ending: ShardEnding
    create: tuple[Lease, ...] = ()
    why: str = ""


def plan_shard_end(
    children: Sequence[Child],
    parent_leases: Sequence[bool] = (True, True),
    *,
    with_lease: Iterable[str] = (),
    give_up: bool = False,
) -> EndPlan:
    """`parent_leases`: whether each parent of a merge's child has a lease. `with_lease`: children that have one.

    `give_up`, which is true at random once in thirty times: give the lease up instead of waiting.
    """
    if len(children) != 1:
        return EndPlan(
            ShardEnding.END, _leases(children, with_lease), "the shard was split or has no children"
        )
    if len(children[0].parents) != 2:
        return EndPlan(
            ShardEnding.GIVE_UP, why=f"{children[0].shard_id} is an only child, yet names one parent"
        )
    present = sum(parent_leases)
    if present == 1:
        return EndPlan(
            ShardEnding.GIVE_UP if give_up else ShardEnding.RETRY,
            why="one of the two merged shards has no lease",
        )
    leases = _leases(children, with_lease)
    if present == 0:
        # If no parent has a lease, the row of this ended shard is deleted too, so childShardIds can't be written into it.
        return EndPlan(ShardEnding.GIVE_UP, leases, "the ended shard's own lease is gone")
    return EndPlan(ShardEnding.END, leases, "both merged shards have a lease")


def _leases(children: Sequence[Child], with_lease: Iterable[str]) -> tuple[Lease, ...]:
    there = set(with_lease)
    return tuple(
        Lease(c.shard_id, checkpoint=TRIM_HORIZON, parents=frozenset(c.parents), hash_range=c.hash_range)
        for c in children
        if c.shard_id not in there
    )


def may_clean_up(children: Iterable[Checkpoint | None], *, parents_present: bool) -> bool:
    """Whether an ended lease may be deleted: no parent's lease is left, and every child has been begun.

    LATEST counts as begun. A child without a lease (None) is an error: its records might never be read.
    """
    begun = True
    for at in children:
        if at is None:
            raise Unknown("a child of the ended shard has no lease; the ended lease is kept")
        begun = begun and at not in {TRIM_HORIZON, AT_TIMESTAMP}
    return begun and not parents_present
