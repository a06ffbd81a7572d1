"""In the tables of a live KCL 3.x fleet: its rows are made as KCL makes them, and an eye is kept on its leader."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipeline.beside_kcl.kcl_leader_watch import KclLeaderWatch, Unassigned
from pipeline.beside_kcl.renewal_pace import told_of
from pipeline.beside_kcl.shared_sync import plan_sync_kcl
from pipeline.core.change import Change
from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.order import Family
from pipeline.core.position import Positions, Start
from pipeline.core.shard import Shard
from pipeline.duties.alone import AssignedLeases
from pipeline.duties.leader_watch import LeaderWatchMemory
from pipeline.duties.part_memory import PartMemory
from pipeline.duties.policy import LeaderLook, TakenLeases
from pipeline.ports import LeaderLock, LeaseStore, Listing, WorkerStore
from pipeline.settings.model import Settings


class KclRows:
    def scope(self, origin: Start, listing: Listing) -> Start | None:
        """KCL asks for the scope at its first start only."""
        return None if listing.leases else origin

    def plan(
        self,
        family: Family,
        shards: tuple[Shard, ...],
        rows: tuple[Lease, ...],
        *,
        positions: Positions,
        multi: bool,
        sentinel: Checkpoint,
    ) -> list[Change]:
        return plan_sync_kcl(family, shards, rows, positions=positions, multi=multi, sentinel=sentinel)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedWork:
    """A worker reads what the fleet's leader gives it, whoever that is."""

    lock: LeaderLock
    workers: WorkerStore
    leases: LeaseStore
    settings: Settings

    def watch_leader(self, seen: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        watched = self._given.watch_leader(seen, memory, now)
        kcls = KclLeaderWatch(self.lock, self.workers, self.leases, self.settings.times)
        unassigned, standstill = kcls.look(Unassigned.of(memory), now)
        return LeaderLook(
            watched.watch,
            unassigned,
            watched.alarm or standstill,
            told_of(unassigned.pace, self.settings.kcl.failover),
        )

    def own_rows(self, me: str, held: frozenset[str]) -> tuple[Lease, ...]:
        return self._given.own_rows(me, held)

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        return TakenLeases(memory)

    @property
    def _given(self) -> AssignedLeases:
        return AssignedLeases(
            lock=self.lock, workers=self.workers, leases=self.leases, times=self.settings.times
        )
