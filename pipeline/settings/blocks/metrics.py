"""The settings `metrics`: figures for CloudWatch or OpenTelemetry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from headrace.pipeline.settings.choices import MetricsLevel, MetricsTo
from headrace.pipeline.settings.knob import knob

ALL_DIMENSIONS: Final = "ALL"
DIMENSIONS: Final = ("ShardId", "StreamId", "StreamName", "WorkerIdentifier", "Target", "Call")
"""The dimensions that may be left out. `Operation` always stays: without it, the series `Time` and `Success` of all operations would be
one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    to: MetricsTo = knob(
        MetricsTo.NONE,
        doc="Where metrics go. none: nowhere. cloudwatch: to Amazon CloudWatch. otel: to an OpenTelemetry "
        "collector by OTLP over HTTP, which needs the extra `headrace[otel]`.",
        kcl="metricsBackend",
    )
    namespace: str | None = knob(
        doc="The CloudWatch namespace, and the OpenTelemetry resource's service.name. Default: the application's name.",
        kcl="namespace",
    )
    level: MetricsLevel = knob(
        MetricsLevel.SUMMARY,
        doc="How much is sent. DETAILED: also the times and outcomes of single requests. SUMMARY: without those. NONE: nothing. "
        "KCL's default is DETAILED.",
        kcl="metricsLevel",
    )
    dimensions: str = knob(
        ALL_DIMENSIONS,
        doc="ALL, or the dimensions to send besides Operation, with commas: `StreamName, WorkerIdentifier`. "
        "Without ShardId all shards of a worker are one series, which costs far less.",
        kcl="metricsEnabledDimensions",
    )
    every: timedelta = knob(
        timedelta(seconds=60),
        doc="The time between two sendings of one process. CloudWatch keeps one point a minute.",
        kcl="metricsBufferTimeMillis",
    )
    most_series: int = knob(
        10_000,
        doc="The most series that a process gathers between two sendings. Values of further series are dropped, counted and told.",
        kcl="metricsMaxQueueSize",
    )

    @property
    def is_on(self) -> bool:
        return self.to is not MetricsTo.NONE and self.level is not MetricsLevel.NONE


def dimensions_in(text: str) -> frozenset[str]:
    """The dimensions that the setting names."""
    names = [name.strip() for name in text.split(",")]
    return frozenset(DIMENSIONS) if ALL_DIMENSIONS in names else frozenset(filter(None, names))
