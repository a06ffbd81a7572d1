"""Every setting of an application, frozen, with its default, its unit and KCL's name for it, where KCL has one.

Values come from the settings file and the environment (`headrace.pipeline.settings.file` reads them) and from nowhere
else. Durations are `timedelta` here and text such as `20s` or `5m` in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.settings.blocks.assignment import AssignmentSettings
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.blocks.dagster import DagsterSettings
from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.blocks.metrics import MetricsSettings
from headrace.pipeline.settings.blocks.parse import ParseSettings, Written
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.settings.choices import (
    Aggregates,
    FormerStreams,
    InitialPosition,
    OnDataLoss,
    Retrieval,
    StreamsMode,
    WireFormat,
)
from headrace.pipeline.settings.knob import knob
from headrace.pipeline.settings.stream_names import name_in

_RENEWALS, _EPSILON = 3, timedelta(milliseconds=25)
"""KCL renews a lease three times in each failover time, and a moment earlier (epsilonMillis)."""
BEATS_ALONE: Final = timedelta(minutes=2)
"""How long `headrace beat` goes on after a worker's last tick and its runs' last beat: longer than a Dagster that is started
again, and short enough for the shards of one that is down."""
# After the reading, Spark's answer and the table's commit take a minute at times, however short the wave
# is.
_LEAST_HUNG = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    name: str = field(
        metadata={
            "doc": "The stream's name or ARN, or the ARN of a DynamoDB table's stream "
            "(arn:aws:dynamodb:...:table/<table>/stream/<label>).",
            "kcl": "streamName / streamArn",
        }
    )
    initial_position: InitialPosition = knob(
        InitialPosition.TRIM_HORIZON,
        doc="Where Headrace starts in a stream that it has never read: TRIM_HORIZON, LATEST or AT_TIMESTAMP. KCL's "
        "default is LATEST.",
        kcl="initialPositionInStreamExtended",
    )
    timestamp: datetime | None = knob(
        doc="With `initial_position: AT_TIMESTAMP`: the moment, with a time zone (2026-01-31T00:00:00Z)."
    )
    on_data_loss: OnDataLoss = knob(
        OnDataLoss.STOP,
        doc="What happens when records have left the stream before they were read. stop: the shard isn't read until a "
        "person decides (`headrace skip`). continue: the gap is recorded in the table, and reading goes on with "
        "the oldest record that is left.",
    )
    retrieval: Retrieval = knob(
        Retrieval.POLLING,
        doc="How records are read. polling: by GetRecords, whose limits of a shard all readers share. fanout: by enhanced "
        "fan-out, with 2 MiB a second of each shard for this application alone, which AWS charges for. KCL's default is "
        "fan-out.",
        kcl="retrievalSpecificConfig",
    )
    consumer: str | None = knob(
        doc="With `retrieval: fanout`: the name of the consumer, which the leader registers. By default the application's "
        "name. Beside a fleet of KCL it must be another one than that fleet's.",
        kcl="consumerName",
    )
    role: str | None = knob(
        doc="The ARN of a role that is assumed to read this stream, in the place of `aws.kinesis.role`. It is assumed anew "
        "before it expires, in Spark's tasks too. A stream of another account is found by its ARN or by such a role."
    )
    external_id: str | None = knob(doc="With `role`: the external id that its trust policy asks for.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    remote: str | None = knob(
        doc="A Spark Connect URL (sc://host:15002), or local[N] for the local Connect server that Headrace shares. "
        "Without `remote` and `master`: local[2]."
    )
    master: str | None = knob(
        doc="A classic Spark master (spark://..., yarn, k8s://...) instead of `remote`."
    )
    conf: Mapping[str, str] = knob(
        factory=dict, doc="Spark configuration for the worker's sessions, key: value."
    )
    threads: int = knob(16, doc="The number of shards that one Spark task reads at the same time.")
    tasks: int = knob(
        2, doc="The most Spark tasks of one wave. On a cluster, choose about the number of its cores."
    )

    def __post_init__(self) -> None:
        if self.remote is None and self.master is None:
            # A frozen dataclass refuses an assignment.
            object.__setattr__(self, "remote", "local[2]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    id: str = field(
        metadata={
            "doc": "The worker's id, which is written into the attribute leaseOwner of lease rows.",
            "kcl": "workerIdentifier",
        }
    )
    spark: SparkSettings = knob(
        factory=lambda: SparkSettings(remote="local[2]"), doc="The Spark that this worker uses."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSettings:
    table: str = knob("lake.records", doc="Namespace and name of the lake table.")
    catalog: Mapping[str, str] = knob(
        factory=dict,
        doc="pyiceberg's catalog properties (type, uri, warehouse, ...). Default: an embedded catalog, which is "
        "SQLite and files under `home`. Region, profile and endpoint come from `aws`, unless properties here say "
        "otherwise (s3.region, glue.endpoint, client.profile-name, ...).",
    )
    state: str | None = knob(
        doc="Folder (URI or path) for positions that are too large for a snapshot's summary. It must lie outside the "
        "table's location. Required with `catalog`. Default: a folder in `home`."
    )
    home: str = knob(
        "headrace-data",
        doc="Folder of the embedded catalog and its warehouse, used where `catalog` is left out. A relative path "
        "starts at the folder of the settings file.",
    )
    aggregates: Aggregates = knob(
        Aggregates.AUTO,
        doc="What becomes of aggregates of the Kinesis Producer Library: `unpack` lands a row for each user record, "
        "`keep` one row for the whole aggregate. `auto` unpacks, except in a table that was made with `keep`, "
        "until `unpack` is set. Each range of the lineage table says which of the two it was.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveSettings:
    records: int = knob(
        1_000_000,
        doc="The most records of one wave, over all its shards. Its last page may add up to 10,000.",
        kcl="maxRecords (per call there)",
    )
    bytes: int = knob(
        256 * 1024 * 1024,
        doc="The most payload bytes of one wave, over all its shards. Its last page may add up to 10 MiB.",
        unit="bytes",
    )
    seconds: timedelta = knob(
        timedelta(seconds=60), doc="The longest time that one wave reads, before it lands what it has read."
    )
    every: timedelta = knob(
        timedelta(seconds=10),
        doc="The least time between the starts of two waves, once a run has read its shards up to the newest record.",
    )
    shard_share: float = knob(
        0.8,
        doc="The part of a shard's limits (5 GetRecords calls and 2 MiB a second, for all applications that read the "
        "shard) that a run uses at most. Choose 0.5 or less beside applications that read much, and 1 where "
        "Headrace reads alone.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSettings:
    worker_tick: timedelta = knob(
        timedelta(seconds=5),
        doc="The time between two ticks of a worker's sensor. Dagster's daemon looks every 5 s which sensors are due: "
        "other times are rounded up to a multiple of 5 s. Set a longer time if your daemon can't keep up, or if "
        "fewer requests matter more than latency.",
    )
    leader_tick: timedelta = knob(
        timedelta(seconds=5),
        doc="The time between two ticks of the leader's sensor, rounded up like `times.worker_tick`. "
        "The leader's lock is valid for four ticks.",
    )
    lease_duration: timedelta = knob(
        timedelta(seconds=20),
        doc="A worker or run that shows no beat for longer than this counts as dead.",
        kcl="failoverTimeMillis",
    )
    linger: timedelta = knob(
        timedelta(minutes=5), doc="The longest time that a run goes on from wave to wave."
    )
    idle: timedelta = knob(
        timedelta(seconds=20),
        doc="A run ends when no record came for this long. The worker's sensor then looks for new records, and asks "
        "for the next run.",
    )
    launch_grace: timedelta = knob(
        timedelta(seconds=60),
        doc="A run that Dagster started less than this ago counts as living, also before its first beat.",
    )
    dwell: timedelta = knob(
        timedelta(minutes=5),
        doc="The least time that a lease stays with a living worker before balancing moves it again.",
    )
    handover_deadline: timedelta = knob(
        timedelta(seconds=90),
        doc="A handover that takes longer than this is forced: the lease moves, the table refuses the records that "
        "the old worker was still reading, and the new worker reads them again.",
        kcl="gracefulLeaseHandoffTimeoutMillis",
    )
    shard_sync: timedelta = knob(
        timedelta(seconds=30),
        doc="The time between two comparisons of the lease rows with Kinesis's list of shards (shard syncs).",
        kcl="leasesRecoveryAuditorExecutionFrequencyMillis",
    )
    cleanup: timedelta = knob(
        timedelta(minutes=5),
        doc="The time between two rounds in which the leader deletes rows of ended shards. In every sixth round the "
        "leader asks Kinesis which shards no longer exist, and deletes their rows, too.",
        kcl="completedLeaseCleanupIntervalMillis",
    )
    assignment: timedelta = knob(
        timedelta(seconds=20),
        doc="The time between two assignments, each of which scans all leases.",
        kcl="leaseAssignmentIntervalMillis",
    )
    probe: timedelta = knob(
        timedelta(seconds=15),
        doc="The time between two looks for new records in an idle shard.",
        kcl="idleTimeBetweenReadsInMillis",
    )
    checkpoint: timedelta = knob(
        timedelta(seconds=60),
        doc="The most by which a lease row's checkpoint is behind the lake table while a run keeps its claim from "
        "wave to wave. It is exact once the claim is released.",
    )
    materialize: timedelta = knob(
        timedelta(minutes=5), doc="The least time between two materialization events of one shard in a run."
    )

    @property
    def leader_lock(self) -> timedelta:
        """How long the leader's lock is valid after each beat: a leader counts as dead after four missed ticks."""
        return 4 * self.leader_tick

    @property
    def garbage_cleanup(self) -> timedelta:
        """The time between two clean-ups of rows that are left over: six times as long as `cleanup`, as in KCL,
        whose two rounds are 5 and 30 minutes apart.
        """
        return 6 * self.cleanup


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    application: str = field(
        metadata={
            "doc": "The application's name. It names the lease table and Dagster's assets and partitions.",
            "kcl": "applicationName",
        }
    )
    streams: tuple[StreamSettings, ...] = knob(
        factory=tuple, doc="The streams to read: one, or several with `streams_mode: multi`."
    )
    streams_mode: StreamsMode = knob(
        StreamsMode.SINGLE,
        doc="single: lease keys and the names of partitions are shard ids. multi: they name the stream, too. "
        "`headrace rekey` changes the mode of an application that has started.",
    )
    discovery: DiscoverySettings = knob(
        factory=DiscoverySettings,
        doc="With `streams_mode: multi`: Headrace reads more streams, which it finds by their names and tags.",
        kcl="MultiStreamTracker",
    )
    former_streams: FormerStreams = knob(
        FormerStreams.KEEP,
        doc="What happens to streams that have lease rows but are no longer in these settings. keep: Headrace reads "
        "them on. auto: their lease rows are deleted. provided: only the lease rows of streams in "
        "`former_streams_delete` are deleted.",
        kcl="formerStreamsLeasesDeletionStrategy",
    )
    former_streams_delete: tuple[str, ...] = knob(
        factory=tuple, doc="With `former_streams: provided`: names of streams whose lease rows are deleted."
    )
    former_streams_wait: timedelta = knob(
        timedelta(hours=1),
        doc="How long a stream must have been missing from these settings before its lease rows are deleted. Until "
        "then Headrace reads it on.",
        kcl="waitPeriodToDeleteFormerStreams",
    )
    workers: tuple[WorkerSettings, ...] = knob(
        factory=lambda: (WorkerSettings(id="w1"),),
        doc="The workers of this deployment. Each has a sensor, runs and a Spark of its own.",
    )
    coordination: CoordinationSettings = knob(
        factory=CoordinationSettings, doc="The tables in DynamoDB by which workers share the shards."
    )
    assignment: AssignmentSettings = knob(
        factory=AssignmentSettings, doc="How leases are assigned to workers."
    )
    kcl: KclSettings = knob(
        factory=KclSettings,
        doc="Only for applications that work beside the Kinesis Client Library (KCL), that have taken over its "
        "tables, or that assign leases by one of KCL's own strategies. All others leave this block out.",
    )
    landing: LandingSettings = knob(
        factory=LandingSettings, doc="The Iceberg table into which records are landed."
    )
    parse: tuple[ParseSettings, ...] = knob(
        factory=tuple,
        doc="Typed tables that Spark makes of the lake table's records. Each entry is a target with a table of its "
        "own.",
    )
    processors: tuple[ProcessorSettings, ...] = knob(
        factory=tuple,
        doc="Record processors of your own. Each entry works on the lake table's records and has a table of its own.",
    )
    upkeep: UpkeepSettings = knob(
        factory=UpkeepSettings, doc="How the lake table is kept small: what is expired and deleted, and when."
    )
    dagster: DagsterSettings = knob(
        factory=DagsterSettings,
        doc="How Dagster shows the application's assets, and what the checks on them tolerate.",
    )
    private_files: bool = knob(
        default=True,
        doc="Only the user who runs Headrace can read and write the files and folders that Headrace makes on this "
        "machine (catalog, warehouse, state, DAGSTER_HOME). false: the umask decides. Existing and remote folders "
        "stay as they are.",
    )
    aws: AwsSettings = knob(
        factory=AwsSettings,
        doc="How to reach AWS. Credentials come from the environment or a role, never from these settings.",
    )
    wire: WireFormat = knob(
        WireFormat.AUTO,
        doc="The format in which Kinesis is asked for records and answers. cbor: payloads come as they are. json: "
        "they come as base64, a third larger, and cost more CPU. auto: cbor, and json for a shard whose endpoint "
        "doesn't answer well in cbor.",
    )
    wave: WaveSettings = knob(
        factory=WaveSettings,
        doc="How much one wave reads. A wave is one round of a run: read from Kinesis, stage files, commit them to "
        "the table.",
    )
    prices: str | None = knob(
        doc="A file with AWS's prices (TOML), by which the cost of each run is told. Default: those of us-east-1 that Headrace is "
        "shipped with. A relative path starts at the folder of the settings file."
    )
    times: TimeSettings = knob(factory=TimeSettings, doc="Intervals and deadlines.")
    metrics: MetricsSettings = knob(
        factory=MetricsSettings,
        doc="Figures for dashboards and alarms, in Amazon CloudWatch or OpenTelemetry.",
    )

    hooks: str | None = knob(
        doc="A class of yours, as package.module:Class, whose methods are called when a worker changes its state, takes or "
        "loses a lease, when a shard has ended, and when the coordination tables were made. Its module is beside this file, "
        "or installed. No tick waits for it.",
        kcl="workerStateChangeListener / taskExecutionListener / tableCreatorCallback",
    )

    written: Written = field(
        default_factory=Written, compare=False, repr=False, metadata={"is_setting": False}
    )

    @property
    def multi(self) -> bool:
        return self.streams_mode is StreamsMode.MULTI

    @property
    def only_stream(self) -> str | None:
        """The name of the stream of an application that reads one, whose lease keys don't name it."""
        return None if self.multi else name_in(self.streams[0].name)

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
        """The entry of `streams` for the stream with this name, whether the entry has the name or the ARN."""
        return next((s for s in self.streams if name_in(s.name) == name), None)

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The names of the streams in `streams`, whether an entry has the name or the ARN."""
        return tuple(name_in(stream.name) for stream in self.streams)

    def consumer_of(self, stream: StreamSettings | DiscoverySettings) -> str | None:
        """The consumer of enhanced fan-out that reads the stream; None where it is polled."""
        if stream.retrieval is Retrieval.POLLING:
            return None
        return stream.consumer or self.application

    def is_by_fan_out(self, name: str) -> bool:
        """Whether the stream with this name is read by enhanced fan-out."""
        return self.consumer_of(self.stream(name) or self.discovery) is not None

    @property
    def is_shared(self) -> bool:
        """Whether KCL workers use the same coordination tables."""
        return self.kcl.failover is not None

    @property
    def lease_beat(self) -> timedelta | None:
        """The time between two beats of a lease beside KCL's workers, which is that between two renewals of KCL;
        None where there are no KCL workers.
        """
        failover = self.kcl.failover
        return None if failover is None else failover / _RENEWALS - _EPSILON

    @property
    def run_beat(self) -> timedelta:
        """The time between two beats of a run: four in each lease duration, so that a run that misses three in a row
        still counts as alive; and beside KCL's workers as often as these renew their leases."""
        own = self.times.lease_duration / 4
        return own if self.lease_beat is None else min(own, self.lease_beat)

    @property
    def hung_after(self) -> timedelta:
        """How long a wave may be without progress before its run stops its beat. A healthy wave reads for at most
        half of this time.
        """
        return max(_LEAST_HUNG, 2 * self.wave.seconds)

    def worker(self, worker_id: str) -> WorkerSettings | None:
        return next((w for w in self.workers if w.id == worker_id), None)
