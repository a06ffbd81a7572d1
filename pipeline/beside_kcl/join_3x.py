"""Parts of the policy for tables that running KCL 3.x workers share: KCL's own shard sync, and a watch over
KCL's leader."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.beside_kcl.kcl_leader_watch import KclLeaderMemory, KclLeaderWatch
from headrace.pipeline.beside_kcl.renewal_pace import failover_warning
from headrace.pipeline.beside_kcl.shared_sync import plan_sync_kcl
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.duties.policy.own_tables import AssignedLeases
from headrace.pipeline.duties.policy.policy import LeaderLook, RowPlan

KCL_ROWS = RowPlan(lambda origin, listing: None if listing.leases else origin, plan_sync_kcl)
"""Lease rows are made by KCL's rules of shard sync. The listing of shards begins at the origin only while the lease table
is empty, as in KCL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedWork(AssignedLeases):
    """How a worker gets leases in tables that KCL 3.x workers share: it reads those that the leader assigns to
    it. The leader may be a KCL worker.
    """

    failover: timedelta | None

    def watch_leader(self, watch_memory: LeaderWatchMemory, memory: PartMemory, now: datetime) -> LeaderLook:
        # Not `super()`, which a class with slots finds no more once the decorator has made it anew.
        watched = AssignedLeases.watch_leader(self, watch_memory, memory, now)
        kcl_watch = KclLeaderWatch(self.lock, self.workers, self.leases, self.times)
        after, alarm = kcl_watch.look(KclLeaderMemory.of(memory), now)
        return LeaderLook(
            watched.watch,
            after,
            watched.alarm or alarm,
            failover_warning(after.renewal_period, self.failover),
        )
