"""Metrics of one process and application, put together from the settings.

Importing this module imports neither boto3 nor OpenTelemetry.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipeline.aws.clients.meter import Meter
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.metering import Metering, Meters, NoMetering
from headrace.pipeline.metrics.of_calls import CallCounts
from headrace.pipeline.metrics.ports import Send
from headrace.pipeline.metrics.publishing import Publishing
from headrace.pipeline.metrics.series import Level
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.blocks.metrics import dimensions_in
from headrace.pipeline.settings.choices import MetricsTo
from headrace.pipeline.settings.model import Settings

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient


def metering_of(
    settings: Settings, clock: Clock, cloudwatch: Callable[[], CloudWatchClient], meter: Meter
) -> Meters:
    """The metering of an application, as its settings say.

    `cloudwatch`: makes a client with the present credentials. `meter`: that of the application's other clients.
    """
    metrics = settings.metrics
    if not metrics.is_on:
        return NoMetering()
    gathering = Gathering(
        level=Level[metrics.level], dimensions=dimensions_in(metrics.dimensions), most=metrics.most_series
    )
    publishing = Publishing(
        gathering, lambda: _send(settings, cloudwatch), every=metrics.every, collect=CallCounts(meter).add_to
    )
    return Metering(settings, clock, publishing)


def namespace_of(settings: Settings) -> str:
    return settings.metrics.namespace or settings.application


def _send(settings: Settings, cloudwatch: Callable[[], CloudWatchClient]) -> Send:
    if settings.metrics.to is MetricsTo.OTEL:
        from headrace.pipeline.metrics.otlp import OtlpSink

        return OtlpSink.of(namespace_of(settings), os.environ).send
    from headrace.pipeline.metrics.cloudwatch import CloudWatchSink

    return CloudWatchSink(cloudwatch, namespace_of(settings)).send
