"""The Kinesis streams: their shards, for the driver, and their pages of records, for Spark's executors."""

import dagster as dg

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.model import Settings
from headrace.resources.aws import AwsResource, place_of


class StreamResource(AwsResource):
    streams: list[str]
    """The streams in the settings, for Dagster to show; `discovery` may find more."""
    ports: dg.ResourceDependency[Ports]

    @classmethod
    def of(cls, settings: Settings, ports: dg.ResourceDefinition) -> "StreamResource":
        return cls(**place_of(settings.aws), streams=[s.name for s in settings.streams], ports=ports)

    def source(self, user: str) -> ShardSource:
        return self.ports.source(user)

    def pages(self) -> Pages:
        return self.ports.pages()
