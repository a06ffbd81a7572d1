"""One assignment run's view of leases and workers, which changes as the run assigns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum, inf

from pipeline.core.lease import Lease
from pipeline.core.worker import Worker
from pipeline.kcl.metrics import ALPHA, ema, has_none, is_active, is_failing, is_valid
from pipeline.kcl.taker import NO_LIMIT

_BY_THROUGHPUT = "T"
"""KCL's short name of the metric that stands in for a worker without metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KclRules:
    """KCL's knobs of the assignment, with KCL's defaults."""

    duration_ns: int = 10_000_000_000
    """failoverTimeMillis"""
    handover_ns: int = 30_000_000_000
    """gracefulLeaseHandoffTimeoutMillis"""
    graceful: bool = True
    """isGracefulLeaseHandoffEnabled"""
    by_count: bool = False
    """leaseAssignmentStrategy is LEASE_COUNT_BASED, not WORKER_UTILIZATION_AWARE"""
    max_leases: int = NO_LIMIT
    """maxLeasesForWorker"""
    max_kbps: float = inf
    """maxThroughputPerHostKBps"""
    dampening: float = 0.6
    """dampeningPercentage, as a fraction"""
    tolerance: float = 0.1
    """reBalanceThresholdPercentage, as a fraction"""
    overshoot: bool = True
    """allowThroughputOvershoot"""
    balance_every: int = 3
    """varianceBalancingFrequency: every which run balances"""
    alpha: float = ALPHA
    """workerMetricsEMAAlpha"""


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as this run read it, with what the leader remembers of it."""

    lease: Lease
    moved_ns: int
    """When its counter was last seen to move: 0 for one that was unassigned when first seen."""
    deadline_ns: int = 0
    """Until when a pending handover is left alone."""
    free: bool = False
    """Expired or unassigned."""
    pinned: bool = False
    """Not to be balanced in this run. Never of KCL's own: it picks leases in a handover too, and drops them when it writes."""


@dataclass(slots=True)
class FleetLoads:
    """Mutable, and never seen outside of the one run that it is made for."""

    seen: Mapping[str, SeenLease]
    rules: KclRules
    load: dict[str, dict[str, float]] = field(default_factory=dict)
    """Active worker -> metric -> utilisation, raised with every lease that it is given."""
    limits: dict[str, Mapping[str, float]] = field(default_factory=dict)
    average: dict[str, float] = field(default_factory=dict)
    """Metric -> mean over the active workers, as the run began."""
    kbps: dict[str, float] = field(default_factory=dict)
    held: dict[str | None, dict[str, None]] = field(default_factory=dict)
    """Holder -> keys of its leases, the dead and nobody too."""
    total: dict[str | None, float] = field(default_factory=dict)
    fair_kbps: float = 0.0
    fair_leases: int = 1
    moves: dict[str, str] = field(default_factory=dict)
    """What the run decided: lease key -> worker."""

    def give(self, key: str, to: str) -> None:
        # KCL takes the lease from the holder in the table even where this run has moved it already.
        holder = self.seen[key].lease.holder
        self.held[holder].pop(key, None)
        self.held.setdefault(to, {})[key] = None
        self.total[to] = self.total.get(to, 0.0) + self.kbps[key]
        self.total[holder] -= self.kbps[key]
        self.moves[key] = to

    def free(self) -> list[str]:
        """Keys of the free leases: the unassigned first (they moved at 0), then by how long they stood still."""
        keys = (key for key, each in self.seen.items() if each.free)
        return sorted(keys, key=lambda key: (self.seen[key].moved_ns, key))

    def count(self, worker: str) -> int:
        return len(self.held.get(worker, {}))

    def has_room(self, worker: str) -> bool:
        count = self.count(worker)
        below = self.total.get(worker, 0.0) <= self.rules.max_kbps
        return below and (count == 0 or count < self.rules.max_leases)


def a_fleet(
    seen: Iterable[SeenLease], workers: Iterable[Worker], now: datetime, *, rules: KclRules
) -> FleetLoads:
    """Everything in order of its name, so that the order it was read in changes nothing."""
    fleet = FleetLoads({each.lease.key: each for each in sorted(seen, key=lambda s: s.lease.key)}, rules)
    active = sorted((w for w in workers if _is_target(w, now)), key=lambda w: w.worker_id)
    leases = [each.lease for each in fleet.seen.values()]
    known = [lease.throughput_kbps for lease in leases if lease.throughput_kbps is not None]
    mean = fsum(known) / len(known) if known else 0.0
    fleet.fair_kbps = mean * len(leases) / max(1, len(active))
    fleet.fair_leases = max(1, len(leases) // max(1, len(active)))
    for lease in leases:
        fleet.kbps[lease.key] = mean if lease.throughput_kbps is None else lease.throughput_kbps
        fleet.held.setdefault(lease.holder, {})[lease.key] = None
        fleet.total[lease.holder] = fleet.total.get(lease.holder, 0.0) + fleet.kbps[lease.key]
    for worker in active:
        _add_load(fleet, worker)
    for metric in sorted({name for load in fleet.load.values() for name in load}):
        values = [load[metric] for load in fleet.load.values() if metric in load]
        fleet.average[metric] = fsum(values) / len(values)
    return fleet


def _is_target(worker: Worker, now: datetime) -> bool:
    """Judged by its row alone: that its leases expired doesn't disqualify a worker."""
    if worker.last_update is None or not is_valid(worker.last_update, worker.stats, worker.ranges):
        return False
    return is_active(worker.last_update, now) and not is_failing(worker.stats, worker.ranges)


def _add_load(fleet: FleetLoads, worker: Worker) -> None:
    me = worker.worker_id
    if has_none(worker.stats, worker.ranges):
        # Without any throughput KCL divides 0 by 0 and prefers such workers to all others. Ours reads it as 0.
        share = fleet.total.get(me, 0.0) / fleet.fair_kbps if fleet.fair_kbps else 0.0
        fleet.load[me] = {_BY_THROUGHPUT: ema((share * 100, share * 100), fleet.rules.alpha)}
        fleet.limits[me] = {_BY_THROUGHPUT: 100.0}
    else:
        fleet.load[me] = {name: ema(values, fleet.rules.alpha) for name, values in worker.stats.items()}
        fleet.limits[me] = {name: limits[0] for name, limits in worker.ranges.items()}
