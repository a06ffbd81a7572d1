"""Who leads: what a leader sensor does about the lock row at each tick. The row's form in DynamoDB is in
`headrace.pipeline.aws`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from headrace.pipeline.core.leases.sighting import Sighting, after_look


@dataclass(frozen=True, slots=True)
class LockRow:
    owner: str
    version: str
    """A new uuid with each acquisition and each beat; AWS's lock client calls it recordVersionNumber."""
    duration: timedelta
    """How long the lock may stand still before other deployments count its owner as dead; the owner writes it into the
    row."""
    released: bool = False


class Move(Enum):
    TAKE = "take"
    """The lock is free, or its owner is dead."""
    BEAT = "beat"
    """The lock is this deployment's: beat, so that others see that it lives."""
    WAIT = "wait"
    """Another deployment leads."""


def plan_election(
    me: str, lock: LockRow | None, *, sighting: Sighting | None, since: timedelta | None, tick: timedelta
) -> tuple[Move, Sighting | None]:
    """What to do about the lock, and what to remember of it until the next tick. `since`: the time since the last
    successful look at the lock.
    """
    if lock is None or lock.released:
        return Move.TAKE, None
    if lock.owner == me:
        return Move.BEAT, None
    # How long the lock stands still is counted in looks, not by a clock (`headrace.pipeline.core.leases.sighting`). A
    # new owner writes a new version, so it starts without credit.
    before = {} if sighting is None else {lock.owner: sighting}
    current = after_look(before, {lock.owner: lock.version}, since=since, tick=tick)[lock.owner]
    if current.credit > lock.duration:
        return Move.TAKE, None
    return Move.WAIT, current
