"""Puts a console together, for any KCL application by its table's name, or for the application of a settings file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.aws.clients.clients import dynamodb_client, dynamodb_streams_client, kinesis_client
from headrace.pipeline.aws.clients.meter import Meter
from headrace.pipeline.aws.dynamodb_streams.source import DynamoDbSource
from headrace.pipeline.aws.reading.by_stream import SourcesByStream
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.console.document import Documents
from headrace.pipeline.console.peek import KinesisPeek
from headrace.pipeline.console.server import Console
from headrace.pipeline.console.sources import KinesisStreams, dynamodb_tables
from headrace.pipeline.console.watch import ConsoleWatch

if TYPE_CHECKING:
    from headrace.pipeline.inspect.read import TableNames
    from headrace.pipeline.settings.blocks.aws import AwsSettings
    from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownApplication:
    """The application that a console shows, and options of how it is shown."""

    application: str
    tables: TableNames
    aws: AwsSettings
    stream: str | None = None
    """Name or ARN of the stream of an application with one stream."""
    settings: Settings | None = None
    """Those of an application of Headrace: with them, a shard's page shows what has landed."""
    peek: int = 0
    """Shards of which a look asks Kinesis how far behind they are."""
    every: timedelta = timedelta(seconds=10)
    cluster_by: str | re.Pattern[str] = "^[^-]*"
    dagster: str | None = None


def console_of(shown: ShownApplication) -> Console:
    """The console of an application. No connection is opened and no request is sent yet."""
    clock, meter = SystemClock(), Meter()
    kinesis = kinesis_client(shown.aws, meter)
    tables = DynamoDbSource(lambda: dynamodb_streams_client(shown.aws, meter))
    source = SourcesByStream(KinesisSource(kinesis), {}, tables)
    watch = ConsoleWatch(
        tables=dynamodb_tables(dynamodb_client(shown.aws, meter), shown.tables, clock),
        streams=KinesisStreams(source, clock, shown.stream).of,
        clock=clock,
        spending=meter.spending,
        peek=KinesisPeek(kinesis, shown.peek).look if shown.peek else None,
        every=shown.every,
        cluster_by=re.compile(shown.cluster_by),
    )
    lake = None
    if shown.settings is not None:
        from headrace.pipeline.app.adapters import Adapters
        from headrace.pipeline.console.lake import LakeOfApplication

        lake = LakeOfApplication(Adapters(shown.settings)).of
    documents = Documents(shown.application, shown.dagster, lake is not None)
    return Console.of(watch, documents, lake)


def of_settings(settings: Settings, *, dagster: str | None = None) -> ShownApplication:
    """The application of a settings file."""
    from headrace.pipeline.inspect.read import TableNames

    streams = settings.streams
    return ShownApplication(
        application=settings.application,
        tables=TableNames(
            lease_table=settings.lease_table,
            worker_table=settings.worker_table,
            state_table=settings.state_table,
        ),
        aws=settings.aws,
        # With several streams the lease rows name them.
        stream=streams[0].name if len(streams) == 1 and not settings.multi else None,
        settings=settings,
        dagster=dagster,
    )
