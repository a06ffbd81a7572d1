"""The series of KCL 3.5 that Headrace sends, each with KCL's name, unit, level and dimensions.
docs/use/metrics.md says of each series of KCL whether Headrace sends it.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.metrics.series import Dimension, Instrument, Level, Series, Unit

_COUNT, _BYTES, _MS = Unit.COUNT, Unit.BYTES, Unit.MILLISECONDS
_S, _D = Level.SUMMARY, Level.DETAILED
_SHARD = (Dimension.SHARD, Dimension.STREAM)
"""`StreamId` is sent in applications with several streams only, as KCL does."""
_WORKER = (Dimension.WORKER,)
_HISTOGRAM, _GAUGE = Instrument.HISTOGRAM, Instrument.GAUGE


def _success(operation: str, name: str = "Success", level: Level = _S, *dimensions: Dimension) -> Series:
    return Series(operation, name, _COUNT, level, dimensions)


def _time(operation: str, name: str = "Time", level: Level = _S, *dimensions: Dimension) -> Series:
    return Series(operation, name, _MS, level, dimensions, _HISTOGRAM)


# -- a wave, by shard ------------------------------------------------------------------------------------------------

RECORDS_PROCESSED: Final = Series("ProcessTask", "RecordsProcessed", _COUNT, _S, _SHARD)
BYTES_PROCESSED: Final = Series("ProcessTask", "DataBytesProcessed", _BYTES, _S, _SHARD, _HISTOGRAM)
MILLIS_BEHIND: Final = Series("ProcessTask", "MillisBehindLatest", _MS, _S, _SHARD, _HISTOGRAM)
PROCESS_SUCCESS: Final = _success("ProcessTask", "Success", _S, *_SHARD)
PROCESS_TIME: Final = _time("ProcessTask", "Time", _S, *_SHARD)
GET_RECORDS: Final = _success("ProcessTask", "KinesisDataFetcher.getRecords.Success", _D, *_SHARD)
UPDATE_LEASE: Final = _success("ProcessTask", "UpdateLease.Success", _D, *_SHARD)
UPDATE_LEASE_TIME: Final = _time("ProcessTask", "UpdateLease.Time", _D, *_SHARD)
APPLICATION_BEHIND: Final = Series("ApplicationTracker", "MillisBehindLatest", _MS, _S, (), _HISTOGRAM)

# -- the end of a shard ----------------------------------------------------------------------------------------------

END_UPDATE_LEASE: Final = _success("ShutdownTask", "UpdateLease.Success", _D, *_SHARD)
END_UPDATE_LEASE_TIME: Final = _time("ShutdownTask", "UpdateLease.Time", _D, *_SHARD)
END_CREATE_LEASE: Final = _success("ShutdownTask", "CreateLease.Success", _D)
END_CREATE_LEASE_TIME: Final = _time("ShutdownTask", "CreateLease.Time", _D)
END_CREATE_LEASE_AT: Final = _success("ShutdownTask", "CreateLease_TRIM_HORIZON.Success", _D)

# -- the leader's shard sync -----------------------------------------------------------------------------------------

SYNC_SUCCESS: Final = _success("ShardSyncTask")
SYNC_TIME: Final = _time("ShardSyncTask")
SYNC_SHARDS: Final = _success("ShardSyncTask", "SyncShards.Success", _D)
SYNC_CREATE_LEASE: Final = _success("ShardSyncTask", "CreateLease.Success", _D)
SYNC_CREATE_LEASE_TIME: Final = _time("ShardSyncTask", "CreateLease.Time", _D)
SYNC_CREATE_LEASE_AT: Final = {
    position: _success("ShardSyncTask", f"CreateLease_{position}.Success", _D)
    for position in ("TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SEQUENCE_NUMBER")
}
AUDITOR_SUCCESS: Final = _success("PeriodicShardSyncManager")
AUDITOR_TIME: Final = _time("PeriodicShardSyncManager")
PARTIAL_STREAMS: Final = Series("PeriodicShardSyncManager", "NumStreamsWithPartialLeases", _COUNT, _S)
ACTIVE_STREAMS: Final = Series("MultiStreamTracker", "ActiveStreams.Count", _COUNT, _S, (), _GAUGE)
STREAMS_TO_DELETE: Final = Series(
    "MultiStreamTracker", "StreamsPendingDeletion.Count", _COUNT, _S, (), _GAUGE
)

# -- the leader's assignment -----------------------------------------------------------------------------------------

LEADS: Final = Series("LeaderDecider", "LeaderDecider:IsLeader", _COUNT, _D)
INITIALIZE: Final = Series("Scheduler:Initialize", "Initialize.Success", _COUNT, _S)
ASSIGN_SUCCESS: Final = _success("LeaseAssignmentManager")
ASSIGN_TIME: Final = _time("LeaseAssignmentManager")
TOTAL_LEASES: Final = Series("LeaseAssignmentManager", "TotalLeases", _COUNT, _S, (), _GAUGE)
NUM_WORKERS: Final = Series("LeaseAssignmentManager", "NumWorkers", _COUNT, _S, (), _GAUGE)
EXPIRED_LEASES: Final = Series("LeaseAssignmentManager", "ExpiredLeases", _COUNT, _S, (), _GAUGE)
LEASE_SPILLOVER: Final = Series("LeaseAssignmentManager", "LeaseSpillover", _COUNT, _S)
REASSIGNED: Final = Series("LeaseAssignmentManager", "NumOfLeasesReassignment", _COUNT, _S)
LOAD_TIME: Final = _time("LeaseAssignmentManager", "LeaseAndWorkerMetricsLoad.Time", _D)
ASSIGN_PASS_TIME: Final = _time("LeaseAssignmentManager", "AssignExpiredOrUnassignedLeases.Time", _D)
FAILED_ASSIGNMENTS: Final = Series("LeaseAssignmentManager", "FailedAssignmentCount", _COUNT, _D)
ASSIGN_LEASES: Final = _success("LeaseAssignmentManager", "ParallelyAssignLeases.Success", _D)
ASSIGN_LEASES_TIME: Final = _time("LeaseAssignmentManager", "ParallelyAssignLeases.Time", _D)
ODD_WORKERS: Final = Series("LeaseAssignmentManager", "NumWorkersWithInvalidEntry", _COUNT, _S, (), _GAUGE)
ODD_LEASES: Final = Series("LeaseAssignmentManager", "LeaseDeserializationFailureCount", _COUNT, _S)

# -- a worker's tick -------------------------------------------------------------------------------------------------

LOST_LEASES: Final = Series("RenewAllLeases", "LostLeases", _COUNT, _S, _WORKER)
CURRENT_LEASES: Final = Series("RenewAllLeases", "CurrentLeases", _COUNT, _S, _WORKER, _GAUGE)
RENEW_SUCCESS: Final = _success("RenewAllLeases", "Success", _S, *_WORKER)
RENEW_TIME: Final = _time("RenewAllLeases", "Time", _S, *_WORKER)
RENEW_LEASE: Final = _success("RenewAllLeases", "RenewLease.Success", _D, *_WORKER)
RENEW_LEASE_TIME: Final = _time("RenewAllLeases", "RenewLease.Time", _D, *_WORKER)
LIST_OWN_TIME: Final = _time("LeaseDiscovery", "ListLeaseKeysForWorker.Time", _D, *_WORKER)
NEW_LEASES: Final = Series("LeaseDiscovery", "NewLeasesDiscovered", _COUNT, _D, _WORKER)
DISCOVERY_SUCCESS: Final = _success("LeaseDiscovery", "Success", _S, *_WORKER)
DISCOVERY_TIME: Final = _time("LeaseDiscovery", "Time", _S, *_WORKER)
REPORT_SUCCESS: Final = _success("WorkerMetricStatsReporter", "Success", _S, *_WORKER)
REPORT_TIME: Final = _time("WorkerMetricStatsReporter", "Time", _S, *_WORKER)

# -- a worker's tick with kcl.mode 2.x, in which workers take leases for themselves ------------------------------------

TAKEN_LEASES: Final = Series("TakeLeases", "TakenLeases", _COUNT, _S, _WORKER)
UNTAKEN_LEASES: Final = Series("TakeLeases", "UntakenLeases", _COUNT, _S, _WORKER)
TAKER_TOTAL_LEASES: Final = Series("TakeLeases", "TotalLeases", _COUNT, _D, _WORKER, _GAUGE)
TAKER_LIST: Final = _success("TakeLeases", "ListLeases.Success", _D, *_WORKER)
TAKER_LIST_TIME: Final = _time("TakeLeases", "ListLeases.Time", _D, *_WORKER)
TAKE_LEASE: Final = _success("TakeLeases", "TakeLease.Success", _D, *_WORKER)
TAKE_LEASE_TIME: Final = _time("TakeLeases", "TakeLease.Time", _D, *_WORKER)
TAKER_SUCCESS: Final = _success("TakeLeases", "Success", _S, *_WORKER)
TAKER_TIME: Final = _time("TakeLeases", "Time", _S, *_WORKER)

ALL: Final = tuple(
    series
    for found in list(vars().values())
    for series in (found.values() if isinstance(found, dict) else (found,))
    if isinstance(series, Series)
)
