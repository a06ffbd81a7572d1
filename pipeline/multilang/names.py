"""The names that KCL's MultiLangDaemon (3.5.1) knows in a .properties file, as data: how it reads each value, and
which setting of Headrace has the same meaning, or why none has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class JavaType(Enum):
    """How KCL's MultiLangDaemon parses the value of a property."""

    TEXT = auto()
    NUMBER = auto()
    """A Java primitive: 0 counts as not set, and a text that is no number too."""
    OBJECT_NUMBER = auto()
    """A whole number that may be 0."""
    FLAG = auto()
    """A Java primitive: false counts as not set."""
    OBJECT_FLAG = auto()
    """A flag that may be false."""


class Writing(Enum):
    """How the value of a property is written in Headrace's settings."""

    AS_IT_IS = auto()
    MILLIS = auto()
    SECONDS = auto()
    PERCENT = auto()
    """As a fraction."""
    OPPOSITE = auto()


@dataclass(frozen=True, slots=True)
class DaemonName:
    kind: JavaType
    default: str
    """KCL's own, as text; empty where there is none."""
    setting: str = ""
    """The setting of Headrace that means the same; empty where there is none."""
    form: Writing = Writing.AS_IT_IS
    why: str = ""
    """Why the value goes nowhere, or what has to be known about it where it goes."""


_T, _N, _ON, _F, _OF = (
    JavaType.TEXT,
    JavaType.NUMBER,
    JavaType.OBJECT_NUMBER,
    JavaType.FLAG,
    JavaType.OBJECT_FLAG,
)
_OWN_PACE = "Headrace has a pace of its own"
_VARIANCE = "counts with `assignment.strategy: variance` only, which is KCL's way to balance; Headrace's own needs none"
_POLLING = "KCL takes it as a request to poll"
_CAPACITY = "counts with provisioned tables only, and KCL's daemon makes no such lease table"
_MIGRATION = "only KCL changes the state of a migration; Headrace acts by the state in the tables"
_ATTEMPTS = "each tick is an attempt, so that there is nothing to count or to wait for"
_CONSUMER = "Headrace tries for 20 s in a task, and at each shard sync in the leader"

KNOWN: Final[Mapping[str, DaemonName]] = {
    # -- what is read, by whom
    "executableName": DaemonName(_T, "", "processors.0.command"),
    "applicationName": DaemonName(_T, "", "application"),
    "streamName": DaemonName(_T, "", "streams.0.name"),
    "streamArn": DaemonName(_T, "", "streams.0.name", why="KCL uses only the stream's name in it"),
    "workerId": DaemonName(_T, "a random UUID", "workers.0.id"),
    "workerIdentifier": DaemonName(_T, "a random UUID", "workers.0.id"),
    "regionName": DaemonName(_T, "by the environment", "aws.region"),
    "kinesisEndpoint": DaemonName(_T, ""),
    "dynamoDBEndpoint": DaemonName(_T, ""),
    "processingLanguage": DaemonName(_T, "", why="it only stands in the user agent of KCL's requests"),
    "initialPositionInStream": DaemonName(_T, "LATEST", "streams.0.initial_position"),
    "initialPositionInStreamExtended": DaemonName(_T, "", "streams.0.timestamp"),
    # -- the processor
    "timeoutInSeconds": DaemonName(_ON, "", "processors.0.timeout", Writing.SECONDS),
    "shutdownGraceMillis": DaemonName(_N, "0", "processors.0.shutdown_grace", Writing.MILLIS),
    "maxRecords": DaemonName(_N, "10000", "processors.0.records", why=_POLLING),
    "callProcessRecordsEvenForEmptyRecordList": DaemonName(_F, "false", why="a processor is called with records only"),
    "maxActiveThreads": DaemonName(_N, "0", why="each shard has a process of its own, and Spark's tasks decide how many work at once"),
    "taskBackoffTimeMillis": DaemonName(_N, "500", why="a shard that fails is tried again by `processors.N.on_error`, and at the next run"),
    "logWarningForTaskAfterMillis": DaemonName(_ON, "", why="Dagster shows how long a run takes; `processors.N.timeout` ends a call"),
    # -- how records are read
    "retrievalMode": DaemonName(_T, "DEFAULT", "streams.0.retrieval"),
    "idleTimeBetweenReadsInMillis": DaemonName(_N, "1500", why=f"{_POLLING}; {_OWN_PACE} (`times.probe`, `wave.every`)"),
    "maxGetRecordsThreadPool": DaemonName(_ON, "", why=f"{_POLLING}; Spark's tasks have `workers.N.spark.threads`"),
    "retryGetRecordsInSeconds": DaemonName(_ON, "", why=f"{_POLLING}, and then never looks at the number"),
    "millisBehindLatestThresholdForReducedTps": DaemonName(_N, "0", why=f"{_POLLING}; `wave.every` spaces the waves at the tip"),
    "fanoutConfig.consumerName": DaemonName(_T, "the application's name", "streams.0.consumer"),
    "fanoutConfig.consumerArn": DaemonName(_T, "", why="a consumer is looked up by its name; say `streams.N.consumer`"),
    "fanoutConfig.retryBackoffMillis": DaemonName(_N, "1000", why=_CONSUMER),
    "fanoutConfig.maxDescribeStreamSummaryRetries": DaemonName(_N, "10", why=_CONSUMER),
    "fanoutConfig.maxDescribeStreamConsumerRetries": DaemonName(_N, "10", why=_CONSUMER),
    "fanoutConfig.registerStreamConsumerRetries": DaemonName(_N, "10", why=_CONSUMER),
    # -- tables
    "tableName": DaemonName(_T, "the application's name", "coordination.lease_table"),
    "workerMetricsTableName": DaemonName(_T, "<application>-WorkerMetricStats", "coordination.worker_table"),
    "coordinatorStateTableName": DaemonName(_T, "<application>-CoordinatorState", "coordination.state_table"),
    "initialLeaseTableReadCapacity": DaemonName(_N, "10", why=_CAPACITY),
    "initialLeaseTableWriteCapacity": DaemonName(_N, "10", why=_CAPACITY),
    "leaseTableDeletionProtectionEnabled": DaemonName(_OF, "false", "coordination.deletion_protection"),
    "leaseTablePitrEnabled": DaemonName(_OF, "false", "coordination.point_in_time_recovery"),
    "leaseTableScanTotalSegments": DaemonName(_N, "0", why="Headrace chooses by the table's size, by KCL's own rule"),
    # -- leases
    "failoverTimeMillis": DaemonName(_N, "10000", why="Headrace's own is `times.lease_duration`. Beside running workers of KCL, say `kcl.failover` with their value"),
    "leaseAssignmentIntervalMillis": DaemonName(_N, "twice the failover", "times.assignment", Writing.MILLIS),
    "shardSyncIntervalMillis": DaemonName(_N, "60000", why=f"KCL sleeps so long after a sync; {_OWN_PACE} (`times.shard_sync`)"),
    "cleanupLeasesUponShardCompletion": DaemonName(_F, "true", "coordination.cleanup"),
    "ignoreUnexpectedChildShards": DaemonName(_F, "false", why="a shard that doesn't fit waits, and the others go on"),
    "maxLeasesForWorker": DaemonName(_N, "2147483647", "assignment.max_leases"),
    "maxLeasesToStealAtOneTime": DaemonName(_N, "1", "kcl.steal_at_most", why="counts with `kcl.mode: 2.x` only"),
    "maxLeaseRenewalThreads": DaemonName(_N, "20", why="one beat counts for all leases of a worker"),
    "enablePriorityLeaseAssignment": DaemonName(_OF, "true", "kcl.very_old_first", why="counts with `kcl.mode: 2.x` only"),
    "listShardsBackoffTimeInMillis": DaemonName(_N, "1500", why=_ATTEMPTS),
    "maxListShardsRetryAttempts": DaemonName(_N, "50", why=_ATTEMPTS),
    "isGracefulLeaseHandoffEnabled": DaemonName(_OF, "true", "assignment.graceful"),
    "gracefulLeaseHandoffTimeoutMillis": DaemonName(_N, "30000", why="Headrace's own is `times.handover_deadline`: a wave and its commit take longer than a batch of KCL"),
    # -- balancing
    "disableWorkerMetrics": DaemonName(_OF, "false", "assignment.cpu", Writing.OPPOSITE),
    "maxThroughputPerHostKBps": DaemonName(_N, "no limit", "kcl.max_throughput_kbps", why=_VARIANCE),
    "dampeningPercentage": DaemonName(_N, "60", "kcl.dampening", Writing.PERCENT, why=_VARIANCE),
    "reBalanceThresholdPercentage": DaemonName(_N, "10", "assignment.tolerance", Writing.PERCENT),
    "allowThroughputOvershoot": DaemonName(_OF, "true", "kcl.overshoot", why=_VARIANCE),
    "varianceBalancingFrequency": DaemonName(_N, "3", "kcl.balance_every", why=_VARIANCE),
    "workerMetricsEMAAlpha": DaemonName(_N, "0.5", "kcl.ema_alpha", why=_VARIANCE),
    "inMemoryWorkerMetricsCaptureFrequencyMillis": DaemonName(_N, "1000", why="each Spark task reads the counters of its host"),
    "workerMetricsReporterFreqInMillis": DaemonName(_N, "30000", why="fixed at 30 s, as KCL's leaders expect"),
    "noOfPersistedMetricsPerWorkerMetrics": DaemonName(_N, "10", why="fixed at 10, as KCL's leaders expect"),
    "staleWorkerMetricsEntryCleanupDuration": DaemonName(_T, "PT24H", why="fixed at a day"),
    # -- migrations and start
    "clientVersionConfig": DaemonName(_T, "CLIENT_VERSION_CONFIG_3X", "kcl.mode"),
    "migrateAllEntitiesToLeaseTable": DaemonName(_F, "false", why=_MIGRATION),
    "tableMigrationCompleteBakeTimeSeconds": DaemonName(_N, "86400", why=_MIGRATION),
    "parentShardPollIntervalMillis": DaemonName(_N, "10000", why="children are due as soon as their parents have ended"),
    "skipShardSyncAtWorkerInitializationIfLeasesExist": DaemonName(_F, "false", why="no shard sync holds up a start"),
    "schedulerInitializationBackoffTimeMillis": DaemonName(_N, "1000", why=_ATTEMPTS),
    # -- metrics
    "metricsLevel": DaemonName(_T, "DETAILED", "metrics.level"),
    "metricsEnabledDimensions": DaemonName(_T, "ALL", "metrics.dimensions"),
    "metricsBufferTimeMillis": DaemonName(_N, "10000", why="Headrace's own is `metrics.every`: CloudWatch keeps one point a minute"),
    "metricsMaxQueueSize": DaemonName(_N, "10000", "metrics.most_series"),
}  # fmt: skip
"""Without the credentials' names, which have rules of their own."""

CREDENTIALS: Final = (
    "awscredentialsprovider",
    "awscredentialsproviderdynamodb",
    "awscredentialsprovidercloudwatch",
)
"""In any case of their letters, the only names of which that is true."""

_TABLE_PARTS = (
    "BillingMode",
    "ReadCapacity",
    "WriteCapacity",
    "PointInTimeRecoveryEnabled",
    "DeletionProtectionEnabled",
    "Tags",
)
SIDE_TABLES: Final = frozenset(
    f"{table}{part}" for table in ("workerMetrics", "coordinatorState") for part in _TABLE_PARTS
)
"""Of KCL's two side tables, for which Headrace has one set of settings together with the lease table."""

IGNORED: Final[Mapping[str, str]] = {
    "validateSequenceNumberBeforeCheckpointing": "KCL has had no such property since 2.0; each checkpoint is compared with the delivered records",
    "billingMode": "the daemon doesn't pass it on; say `coordination.billing`",
    "maxInitializationAttempts": "the daemon doesn't pass it on, and here each tick is an attempt",
    "maxPendingProcessRecordsInput": "the daemon doesn't pass it on, and here `wave` bounds what is read",
    "leaseAssignmentStrategy": "the daemon doesn't pass it on; say `assignment.strategy`",
    "metricsBackend": "the daemon doesn't pass it on; say `metrics.to`",
    "dynamoDbLockBasedLeaderLeaseDurationInMillis": "the daemon doesn't pass it on; here the lock goes by `times.leader_tick`",
    "dynamoDbLockBasedLeaderHeartbeatPeriodInMillis": "the daemon doesn't pass it on; here the lock goes by `times.leader_tick`",
    "streamInfoMode": "the daemon doesn't pass it on",
    "consumerName": "the daemon reads `fanoutConfig.consumerName`; say `streams.N.consumer`",
    "consumerArn": "the daemon reads `fanoutConfig.consumerArn`; say `streams.N.consumer`",
}  # fmt: skip
"""Names that users write, and that the daemon doesn't read."""

MEANS_POLLING: Final = (
    "maxRecords", "idleTimeBetweenReadsInMillis", "maxGetRecordsThreadPool", "retryGetRecordsInSeconds", "millisBehindLatestThresholdForReducedTps",
)  # fmt: skip
"""One of them makes the daemon poll where `retrievalMode` isn't set."""
