"""Handing a shard over while it is being read: the leader names the next owner, the holder finishes its wave.

    leader: initiate      owner = next, checkpointOwner = holder      the holder goes on beating and may checkpoint
    holder: complete      checkpointOwner gone                        after its wave, or at once when nobody reads
    next owner: complete  where the holder's run is dead and the holder doesn't see it: it may have forgotten the row
    overdue               anyone completes; the table refuses what the old holder still brings, whole

A pending handover goes first: nobody claims the shard anew until it is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from pipeline.core.change import Change, complete_handover
from pipeline.core.lease import Lease, run_of_claim
from pipeline.core.sighting import Sightings, expired


def pending(leases: Iterable[Lease]) -> Mapping[str, str]:
    """Handovers under way, by lease key, as tokens to be watched."""
    return {
        row.key: f"{row.checkpoint_owner}>{row.owner}" for row in leases if row.checkpoint_owner is not None
    }


def plan_overdue(
    leases: Iterable[Lease], watched: Sightings, deadline: timedelta, *, ours: Collection[str]
) -> list[Change]:
    """`ours`: workers that claim what they read, unlike other applications'. Where none does, there is nothing to wait for: the holder
    may not know of the row any more, for the index shows it under its next owner."""
    late = expired(watched, deadline)
    why = {
        row.key: f"{row.checkpoint_owner} took longer than {deadline} to hand over to {row.owner}"
        if row.key in late
        else f"nobody reads it: {row.checkpoint_owner} hands over to {row.owner}"
        for row in leases
        if row.checkpoint_owner is not None and row.owner is not None
        if row.key in late or (row.run_claim is None and row.checkpoint_owner in ours)
    }
    return [complete_handover(row, why[row.key]) for row in leases if row.key in why]


def plan_hand_over(mine: Iterable[Lease], me: str, living_claims: frozenset[str]) -> list[Change]:
    """What the holder does: let go of what nobody is reading."""
    return [
        complete_handover(row, f"{me} hands over to {row.owner}")
        for row in mine
        if row.checkpoint_owner == me and row.run_claim not in living_claims
    ]


def plan_take_in(
    mine: Iterable[Lease], me: str, living_claims: frozenset[str], *, ours: Collection[str]
) -> list[Change]:
    """What the next owner does. `ours`: holders that beat for what they claim, unlike other applications': a claim of theirs that is
    silent is dead, and waits for nobody."""
    return [
        complete_handover(row, f"run {run_of_claim(row.run_claim)} is dead: {me} takes over")
        for row in mine
        if row.owner == me and row.checkpoint_owner != me and row.checkpoint_owner in ours
        if row.run_claim is not None and row.run_claim not in living_claims
    ]
