"""The Kinesis streams of an application."""

from typing import Any

import dagster as dg

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.settings.model import Settings
from headrace.resources.aws import AwsResource, aws_fields
from headrace.resources.stated import refuse_changes


class StreamResource(AwsResource):
    """Shows where the streams are. The values come from the settings file, and a run with other values is refused before it
    reads anything."""

    streams: list[str]
    """The streams in the settings; `discovery` may find more."""
    wiring: dg.ResourceDependency[Wiring]

    @classmethod
    def of(cls, settings: Settings, wiring: dg.ResourceDefinition) -> "StreamResource":
        return cls(**_stated(settings), wiring=wiring)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        refuse_changes(self, _stated(self.wiring.settings))


def _stated(settings: Settings) -> dict[str, Any]:
    return {**aws_fields(settings.aws.of("kinesis")), "streams": [stream.name for stream in settings.streams]}
