"""Every knob of an application, frozen, with its default, its unit and KCL's name where KCL has one.

Values come from `headrace.yaml` and the environment (`pipeline.settings_file` reads them) and from nowhere
else. Durations are `timedelta` here and text such as `20s` or `5m` in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pipeline.settings_choices import (
    Billing,
    Create,
    FormerStreams,
    Heartbeat,
    InitialPosition,
    Layout,
    Mode,
    OnDataLoss,
    Strategy,
    StreamsMode,
    Wire,
)


def _knob(default: Any = None, *, doc: str, kcl: str = "", unit: str = "", factory: Any = None) -> Any:
    metadata = {"doc": doc, "kcl": kcl, "unit": unit}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    name: str = field(metadata={"doc": "The stream's name or ARN.", "kcl": "streamName / streamArn"})
    initial_position: InitialPosition = _knob(
        InitialPosition.TRIM_HORIZON,
        doc="Where a stream that was never read starts: TRIM_HORIZON, LATEST or AT_TIMESTAMP. KCL's default is LATEST.",
        kcl="initialPositionInStreamExtended",
    )
    timestamp: datetime | None = _knob(
        doc="With AT_TIMESTAMP: the moment, with a time zone (2026-01-31T00:00:00Z)."
    )
    on_data_loss: OnDataLoss = _knob(
        OnDataLoss.STOP,
        doc="Where records left the stream before they were read. stop: the shard stops until a person decides "
        "(`headrace skip`). continue: the gap is recorded in the table, and what is left is read.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    prefix: str | None = _knob(doc="Streams of this account and region whose names begin so.")
    tags: Mapping[str, str] = _knob(factory=dict, doc="Streams that have all of these tags.")
    every: timedelta = _knob(timedelta(seconds=60), doc="Between two looks for streams.")
    initial_position: InitialPosition = _knob(
        InitialPosition.TRIM_HORIZON, doc="Where a found stream starts that was never read."
    )
    timestamp: datetime | None = _knob(doc="With AT_TIMESTAMP: the moment, with a time zone.")
    on_data_loss: OnDataLoss = _knob(
        OnDataLoss.STOP, doc="Of all streams that `streams` doesn't name: stop or continue, as there."
    )

    @property
    def is_asked_for(self) -> bool:
        return self.prefix is not None or bool(self.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    remote: str | None = _knob(
        doc="A Spark Connect URL (sc://host:15002), or local[N] for the local Connect server that Headrace shares. "
        "Without remote and master: local[2]."
    )
    master: str | None = _knob(
        doc="A classic Spark master (spark://..., yarn, k8s://...) instead of `remote`."
    )
    conf: Mapping[str, str] = _knob(factory=dict, doc="Spark configuration, key: value.")
    threads: int = _knob(16, doc="Shards that one Spark task reads at the same time.")
    tasks: int = _knob(2, doc="The most Spark tasks that one wave becomes; a cluster wants about its cores.")

    def __post_init__(self) -> None:
        if self.remote is None and self.master is None:
            object.__setattr__(self, "remote", "local[2]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    id: str = field(
        metadata={"doc": "The worker's id, as it stands in leaseOwner.", "kcl": "workerIdentifier"}
    )
    spark: SparkSettings = _knob(
        factory=lambda: SparkSettings(remote="local[2]"), doc="The Spark that this worker uses."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinationSettings:
    mode: Mode = _knob(
        Mode.OWN,
        doc="own: a leader gives the leases out. 2.x: each worker takes and steals leases for itself, as in KCL 2.x.",
        kcl="clientVersionConfig (2.x: CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X_PHASE1)",
    )
    steal_at_most: int = _knob(
        1, doc="mode 2.x: leases that a worker steals at one time.", kcl="maxLeasesToStealAtOneTime"
    )
    very_old_first: bool = _knob(
        default=True,
        doc="mode 2.x: who sees leases that stood still for three durations takes them all, whatever its share.",
        kcl="enablePriorityLeaseAssignment",
    )
    layout: Layout = _knob(
        Layout.AUTO,
        doc="M: three tables, as KCL 3.0-3.4. S: one table, as KCL 3.5. auto: what the application has already, and M for a "
        "new one.",
    )
    scan_segments: int | None = _knob(
        doc="Into how many parts a scan of the leases is split. Default: by the table's size, 1 to 32.",
        kcl="leaseTableScanTotalSegments",
    )
    lease_table: str | None = _knob(
        doc="Name of the lease table. Default: the application's name.", kcl="tableName"
    )
    worker_table: str | None = _knob(
        doc="Name of the worker table. Default: <application>-WorkerMetricStats.",
        kcl="workerMetricsTableConfig",
    )
    state_table: str | None = _knob(
        doc="Name of the coordinator table. Default: <application>-CoordinatorState.",
        kcl="coordinatorStateTableConfig",
    )
    create: Create = _knob(
        Create.AUTO, doc="auto: missing tables are created. never: the command is named instead."
    )
    billing: Billing = _knob(Billing.ON_DEMAND, doc="PAY_PER_REQUEST or PROVISIONED.", kcl="billingMode")
    read_capacity: int = _knob(10, doc="With PROVISIONED: read units.", kcl="initialLeaseTableReadCapacity")
    write_capacity: int = _knob(
        10, doc="With PROVISIONED: write units.", kcl="initialLeaseTableWriteCapacity"
    )
    point_in_time_recovery: bool = _knob(
        default=False, doc="Continuous backups.", kcl="leaseTablePitrEnabled"
    )
    deletion_protection: bool = _knob(
        default=False, doc="DynamoDB refuses to delete the tables.", kcl="leaseTableDeletionProtectionEnabled"
    )
    tags: Mapping[str, str] = _knob(factory=dict, doc="Tags of created tables.", kcl="tags")
    heartbeat: Heartbeat = _knob(
        Heartbeat.WORKER,
        doc="worker: one write per worker and tick shows that it lives. lease: every lease's counter moves too, as in KCL.",
    )
    kcl_failover: timedelta | None = _knob(
        doc="Joins a live KCL fleet in its own tables: that fleet's failoverTimeMillis, 20s at least. Needs heartbeat: lease and "
        "allow_foreign_checkpoints.",
    )
    allow_foreign_checkpoints: bool = _knob(
        default=False,
        doc="Checkpoints that KCL's workers write move the lake table's positions, as foreign ranges without rows. Exactly once "
        "then speaks of our own ranges only.",
    )
    cleanup: bool = _knob(
        default=True,
        doc="Rows of ended shards are deleted once nobody needs them.",
        kcl="cleanupLeasesUponShardCompletion",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentSettings:
    strategy: Strategy = _knob(
        Strategy.GAP,
        doc="gap: a lease moves only where that shrinks the gap between two workers. variance, lease-count: KCL 3.x's "
        "WORKER_UTILIZATION_AWARE and LEASE_COUNT_BASED.",
        kcl="leaseAssignmentStrategy",
    )
    graceful: bool = _knob(
        default=True,
        doc="The holder finishes its wave before a lease moves. false: leases move at once, and what was staged is read again.",
        kcl="isGracefulLeaseHandoffEnabled",
    )
    max_leases: int | None = _knob(doc="The most open leases of one worker.", kcl="maxLeasesForWorker")
    tolerance: float = _knob(
        0.1,
        doc="As a fraction of the average: a worker that has so much more or less to do is no reason yet to move a lease.",
        kcl="reBalanceThresholdPercentage",
    )
    max_throughput_kbps: float | None = _knob(
        doc="variance: a worker that reads more than this gets no more leases.",
        kcl="maxThroughputPerHostKBps",
    )
    dampening: float = _knob(
        0.6,
        doc="variance: the fraction of a worker's excess that one run takes away.",
        kcl="dampeningPercentage",
    )
    overshoot: bool = _knob(
        default=True,
        doc="variance: one lease moves where even the lightest is more than the excess.",
        kcl="allowThroughputOvershoot",
    )
    balance_every: int = _knob(
        3,
        doc="variance, lease-count: which of a leader's runs evens out; the others only give away what is free.",
        kcl="varianceBalancingFrequency",
    )
    ema_alpha: float = _knob(
        0.5,
        doc="variance: how much the newest of a worker's averages counts against all before it.",
        kcl="workerMetricsEMAAlpha",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    cpu: bool = _knob(
        default=True,
        doc="A worker's row tells how busy the CPUs of the hosts are that its Spark tasks run on. false: it is judged by "
        "the throughput of its leases.",
        kcl="disableWorkerMetrics (the opposite)",
    )
    max_utilisation: int = _knob(
        100,
        doc="Percent. A worker above it gives leases away (strategy: variance).",
        kcl="OperatingRange.maxUtilization",
    )
    network_mbps: int | None = _knob(
        doc="MiB/s in or out that count as 100 %. Left out: the network isn't measured.",
        kcl="workerMetricList",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSettings:
    table: str = _knob("lake.records", doc="Namespace and name of the landing table.")
    catalog: Mapping[str, str] = _knob(
        factory=dict,
        doc="pyiceberg's catalog properties (type, uri, warehouse, ...). Default: SQLite and files under `home`.",
    )
    state: str | None = _knob(
        doc="Folder (URI or path) for positions that outgrow a snapshot's summary; outside the table's location. "
        "Needed with `catalog`. Default: below `home`."
    )
    home: str = _knob(
        "headrace-data",
        doc="Folder of the embedded catalog and warehouse where `catalog` is left out. Relative: beside the settings file.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    region: str | None = _knob(doc="AWS region. Default: the environment's or the profile's.")
    profile: str | None = _knob(doc="Profile in AWS's own configuration files. Keys are never settings.")
    endpoint: str | None = _knob(
        doc="Endpoint of all AWS services, for `headrace local` and other stand-ins."
    )
    wire: Wire = _knob(Wire.JSON, doc="What GetRecords answers in. cbor isn't built yet.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveSettings:
    records: int = _knob(
        1_000_000, doc="Records of one wave, over all its shards.", kcl="maxRecords (per call there)"
    )
    bytes: int = _knob(256 * 1024 * 1024, doc="Payload bytes of one wave, over all its shards.", unit="bytes")
    seconds: timedelta = _knob(timedelta(seconds=60), doc="The longest that one wave reads.")
    every: timedelta = _knob(
        timedelta(seconds=10), doc="The least time between the starts of two waves at the tip."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSettings:
    worker_tick: timedelta = _knob(
        timedelta(seconds=5), doc="Between two ticks of a worker's sensor (Dagster's loop)."
    )
    leader_tick: timedelta = _knob(timedelta(seconds=5), doc="Between two ticks of the leader's sensor.")
    leader_deadline: timedelta = _knob(
        timedelta(seconds=40),
        doc="The longest that a leader tick beats the lock and gives leases out; the next goes on. After half of it no "
        "further stream is looked at, nor are a stream's further rows made.",
    )
    lease_duration: timedelta = _knob(
        timedelta(seconds=20),
        doc="A worker or run that stood still for longer is dead.",
        kcl="failoverTimeMillis",
    )
    hung_after: timedelta = _knob(
        timedelta(seconds=120), doc="A run stops beating this long after its wave began."
    )
    linger: timedelta = _knob(timedelta(minutes=5), doc="The longest that a run goes on from wave to wave.")
    idle: timedelta = _knob(
        timedelta(seconds=20), doc="A run ends when nothing came for this long; a probe starts the next one."
    )
    launch_grace: timedelta = _knob(
        timedelta(seconds=60), doc="A run that started less than this ago counts as living."
    )
    dwell: timedelta = _knob(
        timedelta(minutes=5),
        doc="The least time that a lease stays with a living worker before balancing moves it again.",
    )
    handover_deadline: timedelta = _knob(
        timedelta(seconds=90),
        doc="A handover that takes longer is forced: what its holder was reading is refused by the table, and read again.",
        kcl="gracefulLeaseHandoffTimeoutMillis",
    )
    leader_lock: timedelta = _knob(
        timedelta(seconds=20), doc="The leader's lock.", kcl="dynamoDbLockBasedLeaderLeaseDurationInMillis"
    )
    shard_sync: timedelta = _knob(
        timedelta(seconds=30),
        doc="Between two shard syncs.",
        kcl="leasesRecoveryAuditorExecutionFrequencyMillis",
    )
    completed_cleanup: timedelta = _knob(
        timedelta(minutes=5),
        doc="Between two rounds that delete rows of ended shards.",
        kcl="completedLeaseCleanupIntervalMillis",
    )
    garbage_cleanup: timedelta = _knob(
        timedelta(minutes=30),
        doc="Between two rounds that ask Kinesis which shards it has forgotten, and let go of what was kept for them.",
        kcl="garbageLeaseCleanupIntervalMillis",
    )
    assignment: timedelta = _knob(
        timedelta(seconds=20), doc="Between two scans of all leases.", kcl="leaseAssignmentIntervalMillis"
    )
    probe: timedelta = _knob(
        timedelta(seconds=15), doc="Between two looks at an idle shard.", kcl="idleTimeBetweenReadsInMillis"
    )
    materialize: timedelta = _knob(
        timedelta(minutes=5), doc="The least time between two materialization events of one shard in a run."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    application: str = field(
        metadata={"doc": "Names the lease table and Dagster's partitions.", "kcl": "applicationName"}
    )
    streams: tuple[StreamSettings, ...] = _knob(
        factory=tuple, doc="The streams to land: one, or with `streams_mode: multi` several."
    )
    streams_mode: StreamsMode = _knob(
        StreamsMode.SINGLE,
        doc="single or multi: the form of lease and partition keys. Never changes after the first start.",
    )
    discovery: DiscoverySettings = _knob(
        factory=DiscoverySettings,
        doc="With `streams_mode: multi`: more streams, found by what they are called and tagged.",
        kcl="MultiStreamTracker",
    )
    former_streams: FormerStreams = _knob(
        FormerStreams.KEEP,
        doc="Streams that have lease rows and that nothing here asks for any more. keep: they are read on. auto: their rows "
        "are deleted. provided: those of `former_streams_delete` are.",
        kcl="formerStreamsLeasesDeletionStrategy",
    )
    former_streams_delete: tuple[str, ...] = _knob(
        factory=tuple, doc="With `former_streams: provided`: names of streams whose rows are deleted."
    )
    former_streams_wait: timedelta = _knob(
        timedelta(hours=1),
        doc="How long a stream must have been a former one before its rows are deleted. Until then it is read on.",
        kcl="waitPeriodToDeleteFormerStreams",
    )
    workers: tuple[WorkerSettings, ...] = _knob(
        factory=lambda: (WorkerSettings(id="w1"),), doc="The workers of this deployment, each with its Spark."
    )
    coordination: CoordinationSettings = _knob(factory=CoordinationSettings, doc="The tables in DynamoDB.")
    assignment: AssignmentSettings = _knob(factory=AssignmentSettings, doc="How leases are given out.")
    metrics: MetricsSettings = _knob(factory=MetricsSettings, doc="What workers tell of their load.")
    landing: LandingSettings = _knob(factory=LandingSettings, doc="The lake table.")
    aws: AwsSettings = _knob(factory=AwsSettings, doc="Where AWS is. No secrets here.")
    wave: WaveSettings = _knob(factory=WaveSettings, doc="The budget of one wave.")
    times: TimeSettings = _knob(factory=TimeSettings, doc="The protocol's times.")

    @property
    def multi(self) -> bool:
        return self.streams_mode is StreamsMode.MULTI

    @property
    def lease_table(self) -> str:
        return self.coordination.lease_table or self.application

    @property
    def worker_table(self) -> str:
        return self.coordination.worker_table or f"{self.application}-WorkerMetricStats"

    @property
    def state_table(self) -> str:
        return self.coordination.state_table or f"{self.application}-CoordinatorState"

    def stream(self, name: str) -> StreamSettings | None:
        """What `streams` says of the stream with this name, by its name or by its ARN."""
        return next((s for s in self.streams if s.name.rpartition("/")[2] == name), None)

    @property
    def is_shared(self) -> bool:
        """KCL's workers live in the same tables."""
        return self.coordination.kcl_failover is not None

    def worker(self, worker_id: str) -> WorkerSettings | None:
        return next((w for w in self.workers if w.id == worker_id), None)
