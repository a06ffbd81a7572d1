"""Handing a shard over while it is being read: the leader names the next owner, and the holder finishes its wave first.

    the leader      initiates    owner = next worker, checkpointOwner = holder; the holder goes on beating and may checkpoint
    the holder      completes    checkpointOwner is removed, after the wave, or at once where no run reads the shard
    the next owner  completes    where the holder's run is dead and the holder doesn't complete
    the leader      completes    after `times.handover_deadline`; what the old holder still commits is refused as a whole

Until the handover is complete, no run claims the shard anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from headrace.pipeline.core.leases.change import Change, complete_handover
from headrace.pipeline.core.leases.lease import Lease, run_of_claim
from headrace.pipeline.core.leases.sighting import Sightings, expired


def pending(leases: Iterable[Lease]) -> Mapping[str, str]:
    """The handovers under way: lease key -> a token for `headrace.pipeline.core.leases.sighting`, which measures how
    long each one takes."""
    # Holder and next owner are in the token, so that the time counts anew for a handover to another worker.
    return {
        row.key: f"{row.checkpoint_owner}>{row.owner}" for row in leases if row.checkpoint_owner is not None
    }


def plan_overdue(
    leases: Iterable[Lease], watched: Sightings, deadline: timedelta, *, ours: Collection[str]
) -> list[Change]:
    """The handovers that the leader completes: those that take too long, and those of shards that no run reads.

    `watched`: sightings of the tokens of `pending`. `ours`: the workers of Headrace.
    """
    late = expired(watched, deadline)
    # A lease of a worker of Headrace without a claim isn't being read. The leader completes it, because the holder may
    # not see the row any more: the owner index of the lease table shows it under the next owner. A worker that isn't
    # Headrace's reads without a claim.
    why = {
        row.key: f"{row.checkpoint_owner} took longer than {deadline} to hand over to {row.owner}"
        if row.key in late
        else f"no run reads the shard: worker {row.checkpoint_owner} hands it over to worker {row.owner}"
        for row in leases
        if row.checkpoint_owner is not None and row.owner is not None
        if row.key in late or (row.run_claim is None and row.checkpoint_owner in ours)
    }
    return [complete_handover(row, why[row.key]) for row in leases if row.key in why]


def plan_hand_over(mine: Iterable[Lease], me: str, living_claims: frozenset[str]) -> list[Change]:
    """The handovers that the holder `me` completes: those of its shards that no living run reads."""
    return [
        complete_handover(row, f"worker {me} hands the shard over to worker {row.owner}")
        for row in mine
        if row.checkpoint_owner == me and row.run_claim not in living_claims
    ]


def plan_take_over(
    mine: Iterable[Lease], me: str, living_claims: frozenset[str], *, ours: Collection[str]
) -> list[Change]:
    """The handovers that the next owner `me` completes: those to it where the holder's run is dead. `ours`: the
    holders that are workers of Headrace.
    """
    # Only with a claim, and only from Headrace's workers: their runs beat for each claim, so a claim without a beat is
    # dead. A worker that isn't Headrace's writes no claim, so nothing is known of whether they still read.
    return [
        complete_handover(row, f"run {run_of_claim(row.run_claim)} is dead: worker {me} takes the shard over")
        for row in mine
        if row.owner == me and row.checkpoint_owner != me and row.checkpoint_owner in ours
        if row.run_claim is not None and row.run_claim not in living_claims
    ]
