"""Who leads: the lock row, observed across ticks. (Decisions only; the row's wire form is in aws.)"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from pipeline.core.sighting import Sighting, look


@dataclass(frozen=True, slots=True)
class LockRow:
    owner: str
    version: str
    """A fresh uuid with every acquisition and heartbeat (recordVersionNumber)."""
    duration: timedelta
    """What the owner promised: unseen to move for longer, it is dead."""
    released: bool = False


class Move(Enum):
    TAKE = "take"
    """Free, or its owner is dead."""
    BEAT = "beat"
    """Mine: show that I live."""
    WAIT = "wait"
    """Somebody else leads."""


def plan_election(
    me: str, found: LockRow | None, *, seen: Sighting | None, since: timedelta | None, tick: timedelta
) -> tuple[Move, Sighting | None]:
    """What to do about the lock, and what to remember. `since`: time since the last successful look."""
    if found is None or found.released:
        return Move.TAKE, None
    if found.owner == me:
        return Move.BEAT, None
    before = {} if seen is None else {found.owner: seen}
    now = look(before, {found.owner: found.version}, since=since, tick=tick)[found.owner]
    if now.credit > found.duration:
        return Move.TAKE, None
    return Move.WAIT, now
