"""The leader's lock, from one tick to the next: read once, then beaten, taken, or left to who holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pipeline.core.election import LockRow, Move, plan_election
from pipeline.core.sighting import Sighting
from pipeline.errors import TablesMissing
from pipeline.ports import Ids, LeaderLock


@dataclass(frozen=True, slots=True)
class LockState:
    """What a look at the lock told."""

    move: Move
    found: LockRow | None = None
    seen: Sighting | None = None
    """What to remember of somebody else's."""

    @property
    def stands_still(self) -> bool:
        """Somebody else's hasn't moved for half of its time: whoever may lead soon had better know the workers then."""
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

    def look(self, seen: Sighting | None, since: timedelta | None) -> LockState:
        found = self.lock.read()
        move, seen = plan_election(self.me, found, seen=seen, since=since, tick=self.tick)
        return LockState(move, found, seen)

    def leads(self, lock_state: LockState, *, check_can_lead: Callable[[], None]) -> bool:
        """`check_can_lead`: whoever can't do a leader's work mustn't take the lock; its error leaves it to others."""
        if lock_state.found is not None and lock_state.move is Move.BEAT:
            # The timer of this very tick may have been faster since the lock was read.
            return self.lock.beat(lock_state.found, self.ids.fresh()) or self.beat()
        if lock_state.move is Move.TAKE:
            check_can_lead()
            mine = LockRow(self.me, self.ids.fresh(), self.duration)
            return self.lock.take(mine, seen=lock_state.found)
        return False

    def beat(self) -> bool:
        """Called on a timer while a long tick is at work."""
        try:
            found = self.lock.read()
        except TablesMissing:
            return False  # the tick is making them
        return found is not None and found.owner == self.me and self.lock.beat(found, self.ids.fresh())

    def release(self) -> bool:
        """The clean end of leading: the next leader needn't wait."""
        found = self.lock.read()
        return found is not None and found.owner == self.me and self.lock.release(found)
