"""Sends metrics to an OpenTelemetry collector, by OTLP over HTTP.

OpenTelemetry's instruments aren't used, because a call of one costs twenty times what a statistic set costs. Its
exporter is used, so that the usual variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, ...) name
the collector, its keys and its certificates.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from headrace.pipeline.metrics.otel_names import attribute_name, instrument_name, unit_of
from headrace.pipeline.metrics.ports import Refusal
from headrace.pipeline.metrics.series import Instrument, Series
from headrace.pipeline.metrics.statistics import Datum, Statistics

_SCOPE: Final = InstrumentationScope("headrace")
_Key = tuple[Series, tuple[tuple[str, str], ...]]


class OtlpSink:
    def __init__(self, exporter: MetricExporter, service: str, *, cumulative: bool) -> None:
        """`cumulative`: each sending has the sums since the process began, which is OpenTelemetry's default. Else it has those since the
        last sending."""
        self._exporter = exporter
        self._cumulative = cumulative
        # Sums of two processes would take turns in one series, if the processes weren't told apart.
        self._resource = Resource.create({"service.name": service, "service.instance.id": uuid.uuid4().hex})
        self._since = time.time_ns()
        self._sums: dict[_Key, Statistics] = {}

    @classmethod
    def of(cls, service: str, environ: Mapping[str, str]) -> OtlpSink:
        preference = environ.get(OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE, "cumulative")
        exporter = OTLPMetricExporter()
        return cls(exporter, service, cumulative=preference.strip().lower() == "cumulative")

    def send(self, data: Sequence[Datum]) -> Refusal | None:
        now = time.time_ns()
        metrics = self._metrics(data, now)
        if not self._cumulative:
            self._since = now
        scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
        resource = ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")
        if self._exporter.export(MetricsData(resource_metrics=[resource])) is MetricExportResult.SUCCESS:
            return None
        why = "the OpenTelemetry collector didn't take them (OpenTelemetry's exporter has logged the reason)"
        # Sums since the beginning go with the next sending, too.
        kept = 0 if self._cumulative else sum(datum.statistics.samples for datum in data)
        return Refusal(why, kept)

    def _metrics(self, data: Sequence[Datum], now: int) -> list[Metric]:
        by_name: dict[str, list[Datum]] = {}
        for datum in data:
            known = self._with_earlier(datum)
            by_name.setdefault(instrument_name(datum.series), []).append(known)
        return [self._metric(name, of_name, now) for name, of_name in by_name.items()]

    def _with_earlier(self, datum: Datum) -> Datum:
        if not self._cumulative or datum.series.kind is Instrument.GAUGE:
            return datum
        key = (datum.series, datum.dimensions)
        if key in self._sums:
            self._sums[key].merge(datum.statistics)
        else:
            self._sums[key] = datum.statistics
        return Datum(datum.series, datum.dimensions, self._sums[key])

    def _metric(self, name: str, data: Sequence[Datum], now: int) -> Metric:
        series = data[0].series
        form = AggregationTemporality.CUMULATIVE if self._cumulative else AggregationTemporality.DELTA
        points: Sum | Gauge | Histogram
        match series.kind:
            case Instrument.COUNTER:
                points = Sum(
                    [self._number(datum, datum.statistics.total, now) for datum in data],
                    form,
                    is_monotonic=True,
                )
            case Instrument.GAUGE:
                points = Gauge([self._number(datum, datum.statistics.last, now) for datum in data])
            case Instrument.HISTOGRAM:
                points = Histogram([self._histogram(datum, now) for datum in data], form)
        return Metric(name=name, description="", unit=unit_of(series), data=points)

    def _number(self, datum: Datum, value: float, now: int) -> NumberDataPoint:
        return NumberDataPoint(_attributes(datum), self._since, now, float(value))

    def _histogram(self, datum: Datum, now: int) -> HistogramDataPoint:
        """Without buckets: count, sum, least and most are what a statistic set has."""
        statistics = datum.statistics
        return HistogramDataPoint(
            attributes=_attributes(datum),
            start_time_unix_nano=self._since,
            time_unix_nano=now,
            count=statistics.samples,
            sum=float(statistics.total),
            bucket_counts=[statistics.samples],
            explicit_bounds=[],
            min=statistics.least,
            max=statistics.most,
        )


def _attributes(datum: Datum) -> dict[str, str]:
    return {attribute_name(name): value for name, value in datum.dimensions}
