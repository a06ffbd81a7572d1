"""The table of KCL's settings in docs/reference/kcl-settings.md agrees with the names of KCL in pipeline/settings/model.py,
and has each property of KCL 3.5.1, its MultiLangDaemon and KCL 1.x."""

import re
from pathlib import Path

import pytest

from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import knobs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("use/kcl", "use/kcl-fleets", "why/kcl-parts", "reference/kcl-settings", "reference/kcl-rows")
TEXT = (DOCS / "reference" / "kcl-settings.md").read_text(encoding="utf-8")
KNOBS = {key.removesuffix(".N"): spec.metadata.get("kcl", "") for key, spec, _ in knobs(Settings, index="N")}
NAMED = {key: kcl for key, kcl in KNOBS.items() if kcl}
_WORD = re.compile(r"`([^`]+)`")
_REASON = re.compile(r"^(fixed|not needed|not built)(: \S.*)?$")


def table() -> list[list[str]]:
    section = TEXT.partition("\n## Every KCL setting\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" |") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


ROWS = table()


def settings_in(cell: str) -> list[str]:
    return [] if cell.startswith(("fixed", "not")) else _WORD.findall(cell)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].partition(",")[0].strip("`"))
def test_each_row_names_existing_settings_or_says_why_there_is_none(row: list[str]) -> None:
    here = row[2]
    if settings_in(here):
        assert [key for key in settings_in(here) if key not in KNOBS] == []
    else:
        assert _REASON.match(here)
        assert ":" in here or row[3], "no setting and no reason"


@pytest.mark.parametrize("key", NAMED)
def test_each_setting_with_a_name_of_kcl_is_in_the_row_of_that_name(key: str) -> None:
    rows = [row for row in ROWS if key in settings_in(row[2]) or key in _parents(row[2])]
    names = {name for row in rows for name in _WORD.findall(row[0])}
    said = re.sub(r"\(.*?\)", "", NAMED[key])
    assert {name.strip() for name in said.split("/")} <= names


@pytest.mark.parametrize(
    "name", (Path(__file__).parent / "kcl_3_5_1_properties.txt").read_text(encoding="utf-8").split()
)
def test_each_property_of_kcl_and_its_daemon_is_in_the_table(name: str) -> None:
    assert name in {word for row in ROWS for word in _WORD.findall(row[0])}


def _parents(cell: str) -> set[str]:
    """A setting of `discovery` counts as `discovery`."""
    return {key.partition(".")[0] for key in settings_in(cell)}


def test_no_name_is_in_the_table_twice() -> None:
    names = [name for row in ROWS for name in _WORD.findall(row[0])]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("page", PAGES)
def test_links_within_a_page_have_a_section_as_target(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    asked = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert asked <= anchors
    assert len(anchors) == len(titles)


KCL_SETTINGS = """
aggregatorUtil allowThroughputOvershoot appStreamTracker applicationName billingMode
cacheMissWarningModulus callProcessRecordsEvenForEmptyRecordList checkpointFactory
cleanupLeasesUponShardCompletion clientVersionConfig cloudWatchClient
completedLeaseCleanupIntervalMillis consistentReads consumerArn consumerName consumerTaskFactory
coordinatorFactory coordinatorStateTableConfig customShardDetectorProvider dampeningPercentage
deletionProtectionEnabled disableWorkerMetrics dynamoDBClient
dynamoDbLockBasedLeaderHeartbeatPeriodInMillis dynamoDbLockBasedLeaderLeaseDurationInMillis
dynamoDbRequestTimeout enablePriorityLeaseAssignment executorService failoverTimeMillis
garbageLeaseCleanupIntervalMillis glueSchemaRegistryDeserializer gracefulLeaseHandoffConfig
gracefulLeaseHandoffTimeoutMillis gracefulShutdownCoordinator hierarchicalShardSyncer
idleTimeBetweenReadsInMillis ignoreUnexpectedChildShards inMemoryWorkerMetricsCaptureFrequencyMillis
initialLeaseTableReadCapacity initialLeaseTableWriteCapacity initialPositionInStream
initialPositionInStreamExtended isGracefulLeaseHandoffEnabled kinesisClient kinesisRequestTimeout
leaseAssignmentIntervalMillis leaseAssignmentStrategy leaseCleanupConfig leaseCleanupIntervalMillis
leaseManagementFactory leaseTableDeletionProtectionEnabled leaseTablePitrEnabled
leaseTableScanTotalSegments leasesRecoveryAuditorExecutionFrequencyMillis
leasesRecoveryAuditorInconsistencyConfidenceThreshold listShardsBackoffTimeInMillis
listShardsCacheAllowedAgeInSeconds logWarningForTaskAfterMillis maxCacheMissesBeforeReload
maxDescribeStreamConsumerRetries maxDescribeStreamSummaryRetries maxGetRecordsThreadPool
maxInitializationAttempts maxLeaseRenewalThreads maxLeasesForWorker maxLeasesToStealAtOneTime
maxListShardsRetryAttempts maxPendingProcessRecordsInput maxRecords maxThroughputPerHostKBps
metricsBackend metricsBufferTimeMillis metricsEnabledDimensions metricsFactory metricsLevel
metricsMaxQueueSize migrateAllEntitiesToLeaseTable millisBehindLatestThresholdForReducedTps
namespace noOfPersistedMetricsPerWorkerMetrics openTelemetry parentShardPollIntervalMillis
pointInTimeRecoveryEnabled publisherFlushBuffer reBalanceThresholdPercentage readCapacity
readTimeoutsToIgnoreBeforeWarning recordsFetcherFactory registerStreamConsumerRetries
retrievalFactory retrievalSpecificConfig retryBackoffMillis retryGetRecordsInSeconds
schedulerInitializationBackoffTimeMillis shardConsumerDispatchPollIntervalMillis shardPrioritization
shardRecordProcessorFactory shardSyncIntervalMillis shutdownGraceMillis
skipShardSyncAtWorkerInitializationIfLeasesExist sleepTimeController
staleWorkerMetricsEntryCleanupDuration streamArnConstructor streamIdOnboardingState streamInfoMode
streamName streamTracker tableCreatorCallback tableMigrationCompleteBakeTimeSeconds tableName tags
taskBackoffTimeMillis taskExecutionListener timeoutInSeconds usePollingConfigIdleTimeValue
validateSequenceNumberBeforeCheckpointing varianceBalancingFrequency workerIdentifier
workerMetricList workerMetricsEMAAlpha workerMetricsReporterFreqInMillis workerMetricsTableConfig
workerStateChangeListener workerUtilizationAwareAssignmentConfig writeCapacity
dataFetcherProvider streamIdentifier streamConfigList streamArn formerStreamsLeasesDeletionStrategy
waitPeriodToDeleteFormerStreams orphanedStreamInitialPositionInStream
executableName processingLanguage maxActiveThreads retrievalMode workerId regionName kinesisEndpoint
dynamoDBEndpoint AWSCredentialsProvider AWSCredentialsProviderDynamoDB AWSCredentialsProviderCloudWatch
workerMetricsTableName coordinatorStateTableName workerMetricsBillingMode coordinatorStateBillingMode
workerMetricsTags coordinatorStateTags shardSyncStrategyType
"""
"""The fields of KCL 3.5.1's configuration classes, the further names of the MultiLangDaemon's .properties, and one of 1.x."""


def test_no_setting_of_kcl_is_left_out() -> None:
    told = {name for row in ROWS for name in _WORD.findall(row[0])}
    assert set(KCL_SETTINGS.split()) - told == set()
