"""The leader's lock during one tick: the tick reads it once, and then beats it, takes it, or leaves it to its
holder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.core.leases.election import LockRow, Move, plan_election
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.errors import TablesMissing
from headrace.pipeline.ports.base import Ids
from headrace.pipeline.ports.leases import LeaderLock


@dataclass(frozen=True, slots=True)
class LockState:
    """The lock as a tick has read it, and what to do about it."""

    move: Move
    found: LockRow | None = None
    seen: Sighting | None = None
    """The sighting of another deployment's lock, to be remembered for the next tick."""

    @property
    def stands_still(self) -> bool:
        """Whether another deployment's lock hasn't moved for half of its duration, so that this deployment may
        lead soon.

        In that case this deployment begins to watch the workers, so that its first assignment pass already knows
        which of them are dead.
        """
        if self.move is not Move.WAIT or self.found is None or self.seen is None:
            return False
        return self.seen.credit >= self.found.duration / 2

    @property
    def owner(self) -> str:
        return self.found.owner if self.found is not None else "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Electing:
    me: str
    lock: LeaderLock
    ids: Ids
    tick: timedelta
    duration: timedelta

    def look(self, sighting: Sighting | None, since: timedelta | None) -> LockState:
        row = self.lock.read()
        move, sighting = plan_election(self.me, row, sighting=sighting, since=since, tick=self.tick)
        return LockState(move, row, sighting)

    def leads(self, lock_state: LockState, *, check_can_lead: Callable[[], None]) -> bool:
        """Beat or take the lock, if it is this deployment's turn. Returns whether this deployment leads now.

        `check_can_lead` raises an error where this deployment couldn't do a leader's work. Then the lock is left
        to others.
        """
        if lock_state.found is not None and lock_state.move is Move.BEAT:
            # The timer thread of this tick (`beat`) may have written a new version since the lock was read.
            return self.lock.beat(lock_state.found, self.ids.fresh()) or self.beat()
        if lock_state.move is Move.TAKE:
            # Before the lock is taken: a leader that can't do its work would keep others from it until the lock stands
            # still.
            check_can_lead()
            mine = LockRow(self.me, self.ids.fresh(), self.duration)
            return self.lock.take(mine, seen=lock_state.found)
        return False

    def beat(self) -> bool:
        """Beat the lock if this deployment holds it. A timer calls this while a long tick is at work."""
        try:
            row = self.lock.read()
        except TablesMissing:
            return False  # the tick is creating the tables
        return row is not None and row.owner == self.me and self.lock.beat(row, self.ids.fresh())

    def release(self) -> bool:
        """Delete the lock row if this deployment holds it, so that the next leader needn't wait for it to expire."""
        row = self.lock.read()
        # Read anew, because another deployment may have beaten this one since.
        return row is not None and row.owner == self.me and self.lock.release(row)
