"""The block `assignment` of the settings: how the leader spreads leases over workers."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.settings.choices import Strategy
from headrace.pipeline.settings.knob import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentSettings:
    strategy: Strategy = knob(
        Strategy.GAP,
        doc="How the leader balances leases. gap: a lease moves only if that makes the difference in load "
        "between two workers smaller. variance, lease-count: KCL 3.x's WORKER_UTILIZATION_AWARE and "
        "LEASE_COUNT_BASED.",
        kcl="leaseAssignmentStrategy",
    )
    graceful: bool = knob(
        default=True,
        doc="A worker finishes its wave before its lease moves to another worker. "
        "false: leases move at once, and records that the worker had staged but not landed are read "
        "again.",
        kcl="isGracefulLeaseHandoffEnabled",
    )
    max_leases: int | None = knob(doc="The most open leases of one worker.", kcl="maxLeasesForWorker")
    tolerance: float = knob(
        0.1,
        doc="A fraction of the average load. Leases don't move while no worker's load differs from the "
        "average by more than this.",
        kcl="reBalanceThresholdPercentage",
    )
    cpu: bool = knob(
        default=True,
        doc="Workers report how busy the CPUs of the hosts are on which their Spark tasks run, "
        "and the leader balances by this, too. false: a worker's load is the throughput of its leases "
        "alone.",
        kcl="disableWorkerMetrics (the opposite)",
    )
