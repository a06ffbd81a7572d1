"""The loads of all workers during one run of KCL 3.x's lease assignment; they change as the run assigns leases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum, inf

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.kcl.metrics import ALPHA, ema, is_active, is_failing, is_valid, measures_nothing
from headrace.pipeline.kcl.taker import NO_LIMIT

# KCL's short name of the metric that it computes, from the throughput of the leases, for a worker without
# metrics.
_BY_THROUGHPUT = "T"


@dataclass(frozen=True, slots=True, kw_only=True)
class KclRules:
    """KCL's settings of lease assignment, with KCL's defaults. Durations are nanoseconds."""

    duration_ns: int = 10_000_000_000
    """failoverTimeMillis"""
    handover_ns: int = 30_000_000_000
    """gracefulLeaseHandoffTimeoutMillis"""
    graceful: bool = True
    """isGracefulLeaseHandoffEnabled"""
    by_count: bool = False
    """leaseAssignmentStrategy: True is LEASE_COUNT_BASED, False is WORKER_UTILIZATION_AWARE"""
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
    """varianceBalancingFrequency: with 3, every third run balances"""
    alpha: float = ALPHA
    """workerMetricsEMAAlpha"""


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as this run read it, with the leader's memory of earlier runs."""

    lease: Lease
    moved_ns: int
    """When the leader last saw the counter change. 0 if the lease had no owner when the leader first saw it."""
    deadline_ns: int = 0
    """The instant until which a pending handover is left to its holder."""
    free: bool = False
    """The lease is expired or has no owner."""
    pinned: bool = False
    """Balancing doesn't move this lease in this run. KCL itself pins no lease: it also chooses leases that
    are being handed over, and skips them when it writes."""


@dataclass(slots=True)
class FleetLoads:
    """The leases and loads of each worker during one run. Mutable; an object is made for one run and used by that
    run only.
    """

    leases: Mapping[str, SeenLease]
    rules: KclRules
    load: dict[str, dict[str, float]] = field(default_factory=dict)
    """Active worker -> metric -> utilisation. It rises with each lease that the run gives to the worker."""
    limits: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """Active worker -> metric -> the utilisation above which the worker counts as overloaded."""
    average: dict[str, float] = field(default_factory=dict)
    """Metric -> mean over the active workers when the run began."""
    kbps: dict[str, float] = field(default_factory=dict)
    """Lease key -> throughput; the mean of all leases where the row has none."""
    held: dict[str | None, dict[str, None]] = field(default_factory=dict)
    """Holder -> keys of its leases. Dead workers are holders too; None holds the unassigned leases."""
    total: dict[str | None, float] = field(default_factory=dict)
    """Holder -> throughput of its leases."""
    fair_kbps: float = 0.0
    """The throughput of all leases, divided by the number of active workers."""
    fair_leases: int = 1
    """The number of leases, divided by the number of active workers, at least 1."""
    moves: dict[str, str] = field(default_factory=dict)
    """The run's decisions: lease key -> worker."""

    def give(self, key: str, to: str) -> None:
        # As in KCL, the lease is subtracted from its holder in the table, even if this run has moved it before.
        holder = self.leases[key].lease.holder
        self.held[holder].pop(key, None)
        self.held.setdefault(to, {})[key] = None
        self.total[to] = self.total.get(to, 0.0) + self.kbps[key]
        self.total[holder] -= self.kbps[key]
        self.moves[key] = to

    def free_keys(self) -> list[str]:
        """Keys of the free leases: unassigned leases first (their `moved_ns` is 0), then the longest expired ones."""
        # By key last, so that equal leases are given in the same order whatever order they were read in.
        keys = (key for key, lease in self.leases.items() if lease.free)
        return sorted(keys, key=lambda key: (self.leases[key].moved_ns, key))

    def count(self, worker: str) -> int:
        return len(self.held.get(worker, {}))

    def has_room(self, worker: str) -> bool:
        count = self.count(worker)
        # As in KCL, a worker without leases may get one even if `max_leases` is 0, and exactly `max_kbps` is
        # still allowed.
        below = self.total.get(worker, 0.0) <= self.rules.max_kbps
        return below and (count == 0 or count < self.rules.max_leases)


def build_fleet(
    assignable: Iterable[SeenLease], workers: Iterable[Worker], now: datetime, *, rules: KclRules
) -> FleetLoads:
    """The loads before the run assigns anything. Leases and workers are sorted by name, so that the same rows
    give the same plan in whatever order they were read."""
    fleet = FleetLoads(
        {watched.lease.key: watched for watched in sorted(assignable, key=lambda s: s.lease.key)}, rules
    )
    active = sorted((w for w in workers if _is_target(w, now)), key=lambda w: w.worker_id)
    leases = [watched.lease for watched in fleet.leases.values()]
    measured = [lease.throughput_kbps for lease in leases if lease.throughput_kbps is not None]
    mean = fsum(measured) / len(measured) if measured else 0.0
    fleet.fair_kbps = mean * len(leases) / max(1, len(active))
    fleet.fair_leases = max(1, len(leases) // max(1, len(active)))
    # By holder: during a handover the lease still counts for the worker that reads it.
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
    """Whether a worker may be given leases. As in KCL, its metric row decides alone: a worker whose leases have expired
    still qualifies."""
    if worker.last_update is None or not is_valid(worker.last_update, worker.stats, worker.ranges):
        return False
    return is_active(worker.last_update, now) and not is_failing(worker.stats, worker.ranges)


def _add_load(fleet: FleetLoads, worker: Worker) -> None:
    me = worker.worker_id
    if measures_nothing(worker.stats, worker.ranges):
        # If no lease has a throughput, KCL divides 0 by 0, and its NaN puts these workers before all others.
        # Here it is 0.
        share = fleet.total.get(me, 0.0) / fleet.fair_kbps if fleet.fair_kbps else 0.0
        # KCL makes up two equal samples; 100 % is the fair share.
        fleet.load[me] = {_BY_THROUGHPUT: ema((share * 100, share * 100), fleet.rules.alpha)}
        fleet.limits[me] = {_BY_THROUGHPUT: 100.0}
    else:
        fleet.load[me] = {name: ema(values, fleet.rules.alpha) for name, values in worker.stats.items()}
        fleet.limits[me] = {name: limits[0] for name, limits in worker.ranges.items()}
