"""Parts of the policy for tables that running KCL 3.x workers share: KCL's own shard sync, and a watch over
KCL's leader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.beside_kcl.kcl_leader_watch import KclLeaderMemory, KclLeaderWatch
from headrace.pipeline.beside_kcl.renewal_pace import failover_warning
from headrace.pipeline.beside_kcl.shared_sync import plan_sync_kcl
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import Family
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.duties.policy.own_tables import AssignedLeases
from headrace.pipeline.duties.policy.policy import LeaderLook, TakenLeases
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Listing, WorkerStore
from headrace.pipeline.settings.model import Settings


class KclRows:
    """Lease rows are made by KCL's rules of shard sync."""

    def scope(self, origin: Start, listing: Listing) -> Start | None:
        """Where the listing of shards begins: as in KCL, at the origin only while the lease table is empty."""
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
    """A worker reads the leases that the leader assigns to it. The leader may be a KCL worker."""

    lock: LeaderLock
    workers: WorkerStore
    leases: LeaseStore
    settings: Settings

    def watch_leader(self, seen: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        watched = self._given.watch_leader(seen, memory, now)
        kcl_watch = KclLeaderWatch(self.lock, self.workers, self.leases, self.settings.times)
        after, alarm = kcl_watch.look(KclLeaderMemory.of(memory), now)
        return LeaderLook(
            watched.watch,
            after,
            watched.alarm or alarm,
            failover_warning(after.renewal_period, self.settings.kcl.failover),
        )

    def own_rows(self, me: str, held: frozenset[str], known: Mapping[str, Lease]) -> tuple[Lease, ...]:
        return self._given.own_rows(me, held, known)

    def rows_to_beat(self, me: str, known: Mapping[str, Lease], *, search: bool) -> tuple[Lease, ...]:
        return self._given.rows_to_beat(me, known, search=search)

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        return TakenLeases(memory)

    @property
    def _given(self) -> AssignedLeases:
        return AssignedLeases(
            lock=self.lock, workers=self.workers, leases=self.leases, times=self.settings.times
        )
