"""Elects who syncs the shards in `kcl.mode: 2.x`, as KCL 2.x does: all workers shuffle the lease owners with
the same seed, and the first owner in that order is the leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headrace.pipeline.core.leases.sighting import time_from_cursor, time_to_cursor
from headrace.pipeline.duties.policy.memory import PartMemory, from_json
from headrace.pipeline.kcl import leader
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaseStore

# KCL 2.x shuffles again one minute after its first shuffle, then every five minutes.
_FIRST_SHUFFLE = timedelta(seconds=60)
_SHUFFLE = timedelta(seconds=300)


@dataclass(frozen=True, slots=True)
class ShuffleMemory:
    first: datetime | None = None
    last: datetime | None = None
    leader: str | None = None
    """The worker that leads. None where no lease had an owner: then, as in KCL, each worker leads."""

    def as_json(self, *, whole: bool) -> Any:
        return (
            None
            if self.last is None
            else [time_to_cursor(self.first), time_to_cursor(self.last), self.leader]
        )

    @classmethod
    def of(cls, memory: PartMemory) -> ShuffleMemory:
        return memory if isinstance(memory, cls) else from_json(cls._read, memory, cls())

    @classmethod
    def _read(cls, said: Any) -> ShuffleMemory:
        first, last, leader = said
        return cls(time_from_cursor(first), time_from_cursor(last), leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Tells whether this deployment leads, by the shuffle of the lease owners."""

    ours: frozenset[str]
    """The workers of this deployment."""
    leases: LeaseStore
    clock: Clock

    def tick(self, memory: ShuffleMemory) -> tuple[ShuffleMemory, bool]:
        """Shuffle the lease owners, if it is time. Returns what to remember, and whether this deployment leads."""
        now = self.clock.now()
        if _is_due(memory, now):
            # Only owners of open leases are shuffled. The row of an ended shard keeps its last owner until
            # the leader deletes the row: if that worker were gone and came first, no worker would lead.
            rows = self.leases.scan().leases
            order = leader.order_of_leadership(row.owner for row in rows if not row.has_ended)
            memory = ShuffleMemory(memory.first or now, now, order[0] if order else None)
        return memory, memory.leader is None or memory.leader in self.ours


def _is_due(memory: ShuffleMemory, now: datetime) -> bool:
    if memory.last is None:
        return True
    wait = _FIRST_SHUFFLE if memory.last == memory.first else _SHUFFLE
    return not timedelta(0) <= now - memory.last < wait
