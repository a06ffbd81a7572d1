"""`kcl.mode: 2.x` as parts of a policy: nobody gives leases out, and the shuffle names who syncs the shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.beside_kcl.lease_taking import Taking, TakingMemory
from pipeline.beside_kcl.shuffle import Shuffle, ShuffleMemory
from pipeline.core.assign import AssignmentInput
from pipeline.core.change import Change
from pipeline.core.election import Move
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting
from pipeline.core.worker import Worker
from pipeline.duties.alone import held_of
from pipeline.duties.electing import Electing, LockState
from pipeline.duties.leader_watch import LeaderWatchMemory
from pipeline.duties.part_memory import PartMemory
from pipeline.duties.policy import Elected, LeaderLook, TakenLeases
from pipeline.ports import Clock, Ids, LeaseStore, Tables, WorkerStore
from pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ByShuffle:
    """The lock is left alone."""

    here: frozenset[str]
    """The workers of this deployment."""
    leases: LeaseStore
    clock: Clock
    multi: bool

    def look(self, electing: Electing, seen: Sighting | None, since: timedelta | None) -> LockState:
        return LockState(Move.WAIT)

    def leads(
        self, electing: Electing, lock: LockState, memory: PartMemory, *, check_can_lead: Callable[[], None]
    ) -> Elected:
        shuffle = Shuffle(ours=self.here, leases=self.leases, clock=self.clock, multi=self.multi)
        seen, leads = shuffle.tick(ShuffleMemory.of(memory))
        return Elected(leads, seen.leader or "everybody", seen)


class NothingGiven:
    def assigns(self) -> bool:
        return False

    def plan_moves(self, scene: AssignmentInput, workers: Iterable[Worker], *, run: int) -> list[Change]:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpItself:
    leases: LeaseStore
    clock: Clock
    ids: Ids
    settings: Settings
    tables: Tables
    workers: WorkerStore

    def watch_leader(self, seen: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        """Nobody gives leases out, so that there is nobody to watch."""
        return LeaderLook(seen, memory)

    def own_rows(self, me: str, held: frozenset[str]) -> tuple[Lease, ...]:
        """KCL 2.x makes no index, and nothing is given to anybody."""
        mine = held_of(self.leases, me, held)
        # A run of mine makes the rows of children: they are beaten from the next tick on, not from the next scan.
        born = {key for row in mine for key in row.child_keys} - held
        return (*mine, *held_of(self.leases, me, born))

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        taking = Taking(
            me=me,
            leases=self.leases,
            clock=self.clock,
            ids=self.ids,
            settings=self.settings,
            tables=self.tables,
            workers=self.workers,
        )
        found = taking.tick(TakingMemory.of(memory))
        return TakenLeases(found.memory, found.taken, found.mine, str(found))
