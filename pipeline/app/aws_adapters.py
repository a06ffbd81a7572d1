"""The ports on DynamoDB and Kinesis, as an application's settings name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.pipeline.app.made_once import MadeOnce
from headrace.pipeline.aws.clients.access import role_at
from headrace.pipeline.aws.clients.meter import Meter
from headrace.pipeline.clock import SystemClock, SystemIds, thread_timer
from headrace.pipeline.core.landing.pace import FIRST_PAGE_OF_A_WINDOW, MOST_RECORDS, window_share
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.consumers import Consumers
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Tables, WorkerStore
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.usage import ProcessUsage
from headrace.pipeline.settings.blocks.aws import AwsPlace
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import is_dynamodb, name_in
from headrace.pipeline.task_identity import DriverIdentity, TaskIdentity

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

    from headrace.pipeline.aws.leases.table_layout import KnownPlaces
    from headrace.pipeline.aws.reading.fan_out import ConsumerNames
    from headrace.pipeline.aws.reading.pages import KinesisPages

_PATIENCE = timedelta(seconds=30)
"""How long one tick waits for tables that DynamoDB is creating, which is less than a leader's tick may take (40 s). The next tick
goes on waiting."""


class AwsAdapters:
    """The ports on AWS: the coordination tables in DynamoDB, and the streams."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.ids = SystemIds()
        self.timer = thread_timer
        self.made = MadeOnce(self.clock.monotonic)
        self.meter = Meter()
        """Counts what the clients of DynamoDB and Kinesis ask."""

    # -- coordination tables ---------------------------------------------------------------------------------------

    def leases(self) -> LeaseStore:
        from headrace.pipeline.aws.leases.leases import DynamoLeaseStore

        def make() -> LeaseStore:
            places = self._places()
            return DynamoLeaseStore(
                self.dynamodb(),
                self.settings.lease_table,
                clock=self.clock,
                entity_type=lambda: not places().arrangement.lease_rows_only,
            )

        return self.made.get(make, "leases")

    def workers(self) -> WorkerStore:
        from headrace.pipeline.aws.leases.workers import DynamoWorkerStore

        def make() -> WorkerStore:
            places = self._places()
            # A function, because KCL may move the workers' rows to another table while this process runs.
            return DynamoWorkerStore(
                self.dynamodb(),
                lambda: places().workers,
                clock=self.clock,
                # In a table of their own, too: KCL moves the rows to one table only once every worker tells that it can.
                as_in_35=True,
                also=lambda: places().also_workers,
            )

        return self.made.get(make, "workers")

    def lock(self) -> LeaderLock:
        from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock

        def make() -> LeaderLock:
            places = self._places()
            return DynamoLeaderLock(self.dynamodb(), lambda: places().lock)

        return self.made.get(make, "lock")

    def tables(self) -> Tables:
        from headrace.pipeline.aws.leases.tables import DynamoTables

        return self.made.get(
            lambda: DynamoTables(self.dynamodb(), self.settings, patience=_PATIENCE, places=self._places()),
            "tables",
        )

    def _places(self) -> KnownPlaces:
        from headrace.pipeline.aws.leases.table_layout import KnownPlaces

        return self.made.get(lambda: KnownPlaces(self.dynamodb(), self.settings, self.clock), "places")

    # -- Kinesis ---------------------------------------------------------------------------------------------------

    def source(self, user: str) -> ShardSource:
        from headrace.pipeline.aws.dynamodb_streams.source import DynamoDbSource
        from headrace.pipeline.aws.reading.by_stream import SourcesByStream
        from headrace.pipeline.aws.reading.kinesis import KinesisSource

        def make() -> ShardSource:
            named = {name: KinesisSource(self._kinesis_at(place)) for name, place in self._apart().items()}
            return SourcesByStream(
                KinesisSource(self.kinesis()), named, DynamoDbSource(self.dynamodb_streams)
            )

        return self.made.get(make, "source", user)

    def consumers(self, stream: str) -> Consumers:
        from headrace.pipeline.aws.reading.by_stream import PartsByStream
        from headrace.pipeline.aws.reading.consumers import KinesisConsumers

        def make() -> PartsByStream[Consumers]:
            others = KinesisConsumers(self.kinesis())
            named = {name: KinesisConsumers(self._kinesis_at(place)) for name, place in self._apart().items()}
            return PartsByStream(others, named)

        return self.made.get(make, "consumers").of(stream)

    def _apart(self) -> Mapping[str, AwsPlace]:
        """Where the streams are that have a role of their own, by the stream's name."""
        kinesis = self.settings.aws.of("kinesis")
        return {
            name_in(stream.name): kinesis.by(stream.role, stream.external_id)
            for stream in self.settings.streams
            if stream.role is not None
        }

    def pages(self) -> Pages:
        return self._by_stream(self._pages_as_settings_say)

    def _by_stream(self, make: Callable[[AwsPlace], Pages]) -> Pages:
        """The reader of all streams, with another identity for each stream that has a role of its own, and another reader for
        the streams of tables."""
        from headrace.pipeline.aws.reading.by_stream import ReadersByStream

        others = make(self.settings.aws.of("kinesis"))
        return ReadersByStream.of(
            others, {name: make(place) for name, place in self._apart().items()}, self._table_pages()
        )

    def _pages_as_settings_say(self, place: AwsPlace) -> Pages:
        polling = self._pages(place, self.settings.wave.shard_share)
        consumers = self._consumer_names()
        if consumers is None:
            return polling
        from headrace.pipeline.aws.reading.fan_out import FanOutPages, PagesByStream

        return PagesByStream(polling=polling, fan_out=FanOutPages(access=polling.access, consumers=consumers))

    def _table_pages(self) -> Pages | None:
        """The reader of tables' streams, where there may be one."""
        # With several streams, a former one that the settings don't name any more may be a table's.
        if not self.settings.multi and not any(is_dynamodb(s.name) for s in self.settings.streams):
            return None
        from headrace.pipeline.aws.clients.clients import kinesis_access
        from headrace.pipeline.aws.dynamodb_streams.table_pages import DynamoDbPages

        access = self.made.get(
            lambda: kinesis_access(self.settings.aws, "dynamodbstreams"), "dynamodb streams access"
        )
        return DynamoDbPages(access=replace(access, identity=self.identity()))

    def _consumer_names(self) -> ConsumerNames | None:
        """The consumers by which streams are read; None where all streams are polled."""
        from headrace.pipeline.aws.reading.fan_out import ConsumerNames

        settings = self.settings
        others = settings.consumer_of(settings.discovery)
        named = {name_in(stream.name): settings.consumer_of(stream) for stream in settings.streams}
        return None if others is None and not any(named.values()) else ConsumerNames(named, others)

    def pages_of_windows(self) -> Pages:
        """The reader by which a window reads the stream: with a smaller share of shards' limits than runs. It
        always polls, because with the consumer of the runs it would end their subscriptions.
        """
        share = window_share(self.settings.wave.shard_share)
        return self._by_stream(lambda place: self._pages(place, share, first_page=FIRST_PAGE_OF_A_WINDOW))

    def _pages(self, place: AwsPlace, share: float, first_page: int = MOST_RECORDS) -> KinesisPages:
        from headrace.pipeline.aws.clients.clients import kinesis_access
        from headrace.pipeline.aws.reading.pages import KinesisPages

        access = self.made.get(lambda: kinesis_access(self.settings.aws), "kinesis access")
        # Not kept: it is pickled to Spark's executors, with the keys of this moment.
        return KinesisPages(
            access=replace(access, identity=self._reader(place, access.region)),
            share=share,
            first_page=first_page,
            wire=self.settings.wire,
        )

    def _reader(self, place: AwsPlace, region: str) -> TaskIdentity:
        """Who a Spark task is to Kinesis that begins now."""
        who = f"{place.profile or ''} {place.role or ''} {place.external_id or ''}"
        return self.made.get(
            lambda: DriverIdentity(place.profile, role_at(place, region)), "reader", who
        ).now()

    def identity(self) -> TaskIdentity:
        """The AWS identity by which a Spark task that begins now calls S3."""
        return self.made.get(lambda: DriverIdentity(self.settings.aws.profile), "identity").now()

    # -- clients ---------------------------------------------------------------------------------------------------

    def dynamodb(self) -> DynamoDBClient:
        from headrace.pipeline.aws.clients.clients import dynamodb_client

        return self.made.get(lambda: dynamodb_client(self.settings.aws, self.meter), "dynamodb")

    def kinesis(self) -> KinesisClient:
        from headrace.pipeline.aws.clients.clients import kinesis_client

        return self.made.get(lambda: kinesis_client(self.settings.aws, self.meter), "kinesis")

    def _kinesis_at(self, place: AwsPlace) -> KinesisClient:
        from headrace.pipeline.aws.clients.clients import kinesis_client_at

        who = f"{place.role} {place.external_id or ''}"
        return self.made.get(lambda: kinesis_client_at(place, self.meter), "kinesis", who)

    def dynamodb_streams(self) -> Any:
        from headrace.pipeline.aws.clients.clients import dynamodb_streams_client

        return self.made.get(
            lambda: dynamodb_streams_client(self.settings.aws, self.meter), "dynamodb streams"
        )

    def cloudwatch(self) -> CloudWatchClient:
        from headrace.pipeline.aws.clients.clients import cloudwatch_client

        return self.made.get(lambda: cloudwatch_client(self.settings.aws), "cloudwatch")

    def spending(self) -> Callable[[], ProcessUsage]:
        return self.meter.spending()
