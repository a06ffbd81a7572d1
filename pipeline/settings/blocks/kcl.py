"""The block `kcl` of the settings, for applications that share tables or rules with the Kinesis Client
Library (KCL)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.settings.choices import Beat, Heartbeat, Layout, Mode
from headrace.pipeline.settings.knob import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class KclSettings:
    mode: Mode = knob(
        Mode.OWN,
        doc="own: a leader assigns the leases. 2.x: each worker takes and steals leases for itself, as in KCL 2.x. "
        "migrating: as 2.x, until `headrace migrate` or KCL's leader takes the application over to 3.x; then as own.",
        kcl="clientVersionConfig (2.x: CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X_PHASE1; "
        "migrating: CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X)",
    )
    failover: timedelta | None = knob(
        doc="Set this to work beside running KCL workers, in their tables: "
        "the value is the failoverTimeMillis of these workers, at least 20s, or at least 10s (KCL's default) with "
        "`beat: process`. Needs `heartbeat: lease` and `allow_foreign_checkpoints: true`.",
    )
    beat: Beat = knob(
        Beat.TICKS,
        doc="With `failover`: what beats for a worker's leases while no run reads them. ticks: the worker's sensor, at "
        "each tick. process: also `headrace beat`, which `headrace dev` starts itself, every third of `failover` as "
        "KCL's workers do. Slow ticks then lose no lease. Two minutes after the worker's last tick and its runs' last beat it "
        "falls silent.",
    )
    heartbeat: Heartbeat = knob(
        Heartbeat.WORKER,
        doc="How a worker shows that it lives. worker: by one write to its own row per tick. lease: "
        "also by a write to each of its leases, as KCL's workers expect.",
    )
    allow_foreign_checkpoints: bool = knob(
        default=False,
        doc="When KCL's workers write checkpoints, the lake table's positions follow them: "
        "the ledger records such ranges as foreign, and the table has no rows of them. "
        "Exactly once then holds for the ranges that Headrace reads.",
    )
    layout: Layout = knob(
        Layout.AUTO,
        doc="The layout of the coordination tables. M: three tables, as in KCL 3.0-3.4. S: one table, "
        "as in KCL 3.5. auto: the layout that the application's tables have already, "
        "and M for a new application.",
    )
    steal_at_most: int = knob(
        1,
        doc="With `mode: 2.x`: the most leases that a worker steals from other workers at one time.",
        kcl="maxLeasesToStealAtOneTime",
    )
    very_old_first: bool = knob(
        default=True,
        doc="With `mode: 2.x`: a worker takes every lease whose counter stood still for three lease "
        "durations, also beyond the worker's fair share.",
        kcl="enablePriorityLeaseAssignment",
    )
    balance_every: int = knob(
        3,
        doc="With `strategy: variance` or `lease-count`: the leader balances in one of this many "
        "assignments (3: in every third). In the others it only assigns leases that no worker holds.",
        kcl="varianceBalancingFrequency",
    )
    max_throughput_kbps: float | None = knob(
        doc="With `strategy: variance`: a worker that reads more KB/s than this gets no more leases.",
        kcl="maxThroughputPerHostKBps",
    )
    max_utilisation: int = knob(
        100,
        doc="With `strategy: variance`: a worker whose CPU or network is busier than this percentage gives "
        "leases away.",
        kcl="OperatingRange.maxUtilization",
    )
    network_mbps: int | None = knob(
        doc="With `strategy: variance`: the network traffic of a host, in MiB/s in or out, "
        "that counts as 100 % busy. Left out: the network isn't measured.",
        kcl="workerMetricList",
    )
    dampening: float = knob(
        0.6,
        doc="With `strategy: variance`: the fraction of a worker's load above the average that one "
        "assignment moves away.",
        kcl="dampeningPercentage",
    )
    overshoot: bool = knob(
        default=True,
        doc="With `strategy: variance`: one lease moves even if each lease of the worker is more than the "
        "load that should move away.",
        kcl="allowThroughputOvershoot",
    )
    ema_alpha: float = knob(
        0.5,
        doc="With `strategy: variance`: the weight of the newest measurement in the moving average of a worker's load.",
        kcl="workerMetricsEMAAlpha",
    )
