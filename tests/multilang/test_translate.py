"""Settings from a .properties file do what KCL's daemon does with it, also where that isn't what is written there."""

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.multilang.as_yaml import yaml_of
from headrace.pipeline.multilang.names import IGNORED, KNOWN, DaemonName, JavaType
from headrace.pipeline.multilang.translate import Translation, translated
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import knobs

LEAST = "executableName = my_app.py\nstreamName = words\napplicationName = counting\n"
DAEMON = """
executableName applicationName streamName streamArn regionName kinesisEndpoint dynamoDBEndpoint workerId workerIdentifier
tableName processingLanguage maxActiveThreads shutdownGraceMillis timeoutInSeconds initialPositionInStream
initialPositionInStreamExtended retrievalMode maxRecords idleTimeBetweenReadsInMillis maxGetRecordsThreadPool
retryGetRecordsInSeconds millisBehindLatestThresholdForReducedTps fanoutConfig.consumerArn fanoutConfig.consumerName
fanoutConfig.retryBackoffMillis fanoutConfig.maxDescribeStreamSummaryRetries fanoutConfig.maxDescribeStreamConsumerRetries
fanoutConfig.registerStreamConsumerRetries failoverTimeMillis leaseAssignmentIntervalMillis shardSyncIntervalMillis
cleanupLeasesUponShardCompletion ignoreUnexpectedChildShards maxLeasesForWorker maxLeasesToStealAtOneTime
initialLeaseTableReadCapacity initialLeaseTableWriteCapacity maxLeaseRenewalThreads listShardsBackoffTimeInMillis
maxListShardsRetryAttempts leaseTableScanTotalSegments enablePriorityLeaseAssignment leaseTableDeletionProtectionEnabled
leaseTablePitrEnabled isGracefulLeaseHandoffEnabled gracefulLeaseHandoffTimeoutMillis workerMetricsTableName
coordinatorStateTableName inMemoryWorkerMetricsCaptureFrequencyMillis workerMetricsReporterFreqInMillis
noOfPersistedMetricsPerWorkerMetrics disableWorkerMetrics maxThroughputPerHostKBps dampeningPercentage
reBalanceThresholdPercentage allowThroughputOvershoot varianceBalancingFrequency workerMetricsEMAAlpha
staleWorkerMetricsEntryCleanupDuration clientVersionConfig migrateAllEntitiesToLeaseTable
tableMigrationCompleteBakeTimeSeconds parentShardPollIntervalMillis skipShardSyncAtWorkerInitializationIfLeasesExist
schedulerInitializationBackoffTimeMillis taskBackoffTimeMillis logWarningForTaskAfterMillis
callProcessRecordsEvenForEmptyRecordList metricsLevel metricsEnabledDimensions metricsBufferTimeMillis metricsMaxQueueSize
"""
"""The names of the daemon's configurator in KCL 3.5.1, without credentials and the parts of its side tables."""
A_VALUE = {
    "initialPositionInStreamExtended": "1700000000",
    "streamArn": "arn:aws:kinesis:eu-west-1:123456789012:stream/words",
    "clientVersionConfig": "CLIENT_VERSION_CONFIG_3X",
    "metricsLevel": "summary",
    "metricsEnabledDimensions": "ALL",
    "retrievalMode": "FANOUT",
    "initialPositionInStream": "latest",
    "shutdownGraceMillis": "15000",
    "leaseAssignmentIntervalMillis": "30000",
    "dampeningPercentage": "80",
    "reBalanceThresholdPercentage": "20",
    "workerMetricsEMAAlpha": "0.7",
    "streamName": "words",
    "executableName": "node my-app.js",
    "kinesisEndpoint": "http://localhost:4567",
    "dynamoDBEndpoint": "http://localhost:4567",
}


def translate(*lines: str) -> Translation:
    return translated(LEAST + "\n".join(lines), file="kcl.properties")


def told(translation: Translation, name: str) -> str:
    return " ".join(note.sentence for note in translation.notes if note.name == name)


def test_no_name_of_the_daemon_is_left_out() -> None:
    assert set(DAEMON.split()) == KNOWN.keys()


@pytest.mark.parametrize("name", DAEMON.split())
def test_each_name_becomes_a_setting_that_is_allowed_or_is_told(name: str) -> None:
    kind = KNOWN[name].kind
    value = A_VALUE.get(
        name,
        "true"
        if kind in (JavaType.FLAG, JavaType.OBJECT_FLAG)
        else "17"
        if kind is not JavaType.TEXT
        else "abc",
    )
    translation, plain = translate(f"{name} = {value}"), translate()
    parse_settings(yaml_of(translation.settings), {}, name="headrace.yaml")
    is_default = value.lower() == KNOWN[name].default.lower()
    assert translation.settings != plain.settings or told(translation, name) or is_default or name in LEAST


@pytest.mark.parametrize(
    "known", [known for known in KNOWN.values() if known.setting], ids=lambda known: known.setting
)
def test_each_setting_that_a_name_becomes_exists(known: DaemonName) -> None:
    assert known.setting in {key for key, *_ in knobs(Settings)}


@pytest.mark.parametrize(
    "line",
    ["cleanupLeasesUponShardCompletion = false", "failoverTimeMillis = 0", "shutdownGraceMillis = 0", "metricsMaxQueueSize = many"],
)  # fmt: skip
def test_what_the_daemon_takes_for_not_set_is_told_and_not_repeated(line: str) -> None:
    translation = translate(line)
    assert translation.settings == translate().settings
    assert told(translation, line.split(maxsplit=1)[0])


def test_a_wrapped_flag_may_be_false() -> None:
    assert translate("isGracefulLeaseHandoffEnabled = false").settings["assignment.graceful"] == "false"


@pytest.mark.parametrize("name", ["RetrievalMode", "retrivalMode", "madeUp", *IGNORED])
def test_a_name_that_the_daemon_ignores_is_told_and_not_repeated(name: str) -> None:
    translation = translate(f"{name} = POLLING")
    assert translation.settings == translate().settings
    assert "ignore" in told(translation, name)


@pytest.mark.parametrize(
    ("lines", "retrieval"),
    [
        ((), "fanout"),
        (("retrievalMode = polling",), "polling"),
        (("maxRecords = 500",), "polling"),
        (("idleTimeBetweenReadsInMillis = 1000",), "polling"),
        (("maxRecords = 0",), "fanout"),
        (("retrievalMode = FANOUT", "maxRecords = 500"), "fanout"),
    ],
)
def test_records_are_read_as_the_daemon_reads_them(lines: tuple[str, ...], retrieval: str) -> None:
    assert translate(*lines).settings["streams.0.retrieval"] == retrieval


@pytest.mark.parametrize(
    ("lines", "position"),
    [
        ((), "LATEST"),
        (("initialPositionInStream = trim_horizon",), "TRIM_HORIZON"),
        (("initialPositionInStream = TRIM_HORIZON", "initialPositionInStreamExtended = 1700000000"), "AT_TIMESTAMP"),
    ],
)  # fmt: skip
def test_reading_starts_where_kcl_starts(lines: tuple[str, ...], position: str) -> None:
    settings = translate(*lines).settings
    assert settings["streams.0.initial_position"] == position
    assert settings.get("streams.0.timestamp") == (
        "2023-11-14T22:13:20+00:00" if position == "AT_TIMESTAMP" else None
    )


def test_times_and_percentages_have_headraces_units() -> None:
    settings = translate(
        "timeoutInSeconds = 60", "shutdownGraceMillis = 1500", "reBalanceThresholdPercentage = 12"
    ).settings
    assert settings["processors.0.timeout"] == "60s"
    assert settings["processors.0.shutdown_grace"] == "1500ms"
    assert settings["assignment.tolerance"] == "0.12"


def test_keys_of_a_credentials_provider_are_never_shown() -> None:
    translation = translate("awsCredentialsProvider = BasicCredentialsProvider|AKIDEXAMPLE|verysecret")
    assert told(translation, "awsCredentialsProvider")
    assert "verysecret" not in f"{translation.notes}{translation.settings}"
    assert "AKIDEXAMPLE" not in f"{translation.notes}{translation.settings}"


def test_a_profile_is_carried_over() -> None:
    assert (
        translate("AWSCredentialsProvider = ProfileCredentialsProvider|work").settings["aws.profile"]
        == "work"
    )


@pytest.mark.parametrize(
    "text",
    [
        "streamName = words\napplicationName = counting\n",
        "executableName = my_app.py\napplicationName = counting\n",
        f"{LEAST}initialPositionInStream = AT_TIMESTAMP\n",
        f"{LEAST}initialPositionInStreamExtended = yesterday\n",
        f"{LEAST}AwsCredentialsProvider = A\nawsCredentialsProvider = B\n",
    ],
)
def test_a_file_with_which_the_daemon_does_not_start_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        translated(text, file="kcl.properties")


def test_a_script_runs_without_amazon_kclpy_and_another_program_as_it_is() -> None:
    assert translate().settings["processors.0.command"] == "python -m headrace.kclpy my_app.py"
    other = translate("executableName = node my-app.js --fast").settings
    assert (other["processors.0.command"], other["processors.0.name"]) == ("node my-app.js --fast", "node")


@pytest.mark.parametrize(
    ("region", "name"),
    [("us-east-1", "words"), ("eu-west-1", "arn:aws:kinesis:eu-west-1:123456789012:stream/words")],
)
def test_the_region_of_an_arn_gives_way_to_that_of_the_file_as_in_the_daemon(region: str, name: str) -> None:
    text = f"{LEAST}streamArn = {A_VALUE['streamArn']}\nregionName = {region}\n"
    result = translated(text, file="kcl.properties")
    assert (result.settings["streams.0.name"], result.settings["aws.region"]) == (name, region)
    told = any("eu-west-1 doesn't count" in note.sentence for note in result.notes)
    assert told is (region != "eu-west-1")
