"""Metrics for OpenTelemetry: a server of this module takes the requests of OpenTelemetry's own exporter, and reads them with
OpenTelemetry's own protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.otlp import OtlpSink
from headrace.pipeline.metrics.series import Series
from headrace.pipeline.metrics.statistics import Datum, Statistics
from tests.metrics.http_answers import Answer, Answering, answering
from tests.metrics.metered_world import MeteredWorld

DELTA, CUMULATIVE = 1, 2
"""OTLP's numbers."""


@dataclass
class Collector:
    """What the server was sent."""

    state: Answering

    @property
    def requests(self) -> list[ExportMetricsServiceRequest]:
        return [ExportMetricsServiceRequest.FromString(sent.body) for sent in self.state.sent]

    def metric(self, name: str, request: int = -1) -> Any:
        """One metric of a request."""
        (resource,) = self.requests[request].resource_metrics
        (scope,) = resource.scope_metrics
        (metric,) = [metric for metric in scope.metrics if metric.name == name]
        return metric


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with answering() as state:
        state.answer = lambda _: Answer(body=b"")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", state.url)
        yield Collector(state)


def a_datum(series: Series, *values: float, **dimensions: str) -> Datum:
    statistics = Statistics.of(values[0])
    for value in values[1:]:
        statistics.add(value)
    return Datum(series, (("Operation", series.operation), *dimensions.items()), statistics)


def attributes(point: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in point.attributes}


def test_each_kind_of_series_has_its_instrument(collector: Collector) -> None:
    sink = OtlpSink.of("orders", {})
    data = [
        a_datum(kcl.RECORDS_PROCESSED, 3, 4, ShardId="s0"),
        a_datum(kcl.MILLIS_BEHIND, 5, 1, 9, ShardId="s0", StreamId="123456789012:orders:1"),
        a_datum(kcl.CURRENT_LEASES, 2, 5, 4, WorkerIdentifier="w1"),
        a_datum(own.LAG, 7, StreamName="orders"),
    ]
    assert sink.send(data) is None
    assert [sent.path for sent in collector.state.sent] == ["/v1/metrics"]
    counter = collector.metric("aws.kinesis.client.records_processed")
    assert (counter.unit, counter.sum.is_monotonic, counter.sum.data_points[0].as_double) == ("1", True, 7)
    assert attributes(counter.sum.data_points[0]) == {
        "aws.kinesis.operation": "ProcessTask",
        "aws.kinesis.shard.id": "s0",
    }
    histogram = collector.metric("aws.kinesis.client.consumer.lag.duration")
    (point,) = histogram.histogram.data_points
    assert (histogram.unit, point.count, point.sum, point.min, point.max) == ("ms", 3, 15, 1, 9)
    assert attributes(point)["aws.kinesis.stream_name"] == "123456789012:orders:1"
    gauge = collector.metric("aws.kinesis.client.current_leases")
    assert gauge.gauge.data_points[0].as_double == 4
    assert attributes(gauge.gauge.data_points[0])["aws.kinesis.consumer.name"] == "w1"
    assert collector.metric("headrace.lag").unit == "s"
    resource = {
        a.key: a.value.string_value for a in collector.requests[0].resource_metrics[0].resource.attributes
    }
    assert resource["service.name"] == "orders"
    assert resource["service.instance.id"]


@pytest.mark.parametrize(
    ("preference", "form", "second"), [("cumulative", CUMULATIVE, 5), ("delta", DELTA, 2)]
)
def test_sums_are_cumulative_or_of_the_last_period_as_opentelemetrys_variable_says(
    collector: Collector, preference: str, form: int, second: int
) -> None:
    sink = OtlpSink.of("orders", {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": preference})
    for value in (3, 2):
        assert sink.send([a_datum(kcl.RECORDS_PROCESSED, value, ShardId="s0")]) is None
    counters = [collector.metric("aws.kinesis.client.records_processed", request).sum for request in (0, 1)]
    assert [counter.data_points[0].as_double for counter in counters] == [3, second]
    assert counters[0].aggregation_temporality == form
    begins = [counter.data_points[0].start_time_unix_nano for counter in counters]
    assert (begins[0] == begins[1]) is (form == CUMULATIVE)


@pytest.mark.parametrize(("preference", "lost"), [("cumulative", 0), ("delta", 2)])
def test_what_a_collector_refuses_is_lost_unless_the_sums_go_on(
    collector: Collector, preference: str, lost: int
) -> None:
    collector.state.answer = lambda _: Answer(401, b"")
    sink = OtlpSink.of("orders", {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": preference})
    refusal = sink.send([a_datum(kcl.RECORDS_PROCESSED, 3, 4, ShardId="s0")])
    assert refusal is not None
    assert refusal.values == lost


def test_a_whole_application_has_kcls_names(collector: Collector) -> None:
    metered = MeteredWorld()
    metered.sink = OtlpSink.of("orders", {})  # type: ignore[assignment]
    metered.tick(3)
    metered.world.produce(0, 3)
    metered.run()
    metered.publishing.flush()
    metered.close()
    names = {
        metric.name
        for request in collector.requests
        for metric in request.resource_metrics[0].scope_metrics[0].metrics
    }
    assert {"aws.kinesis.client.time", "aws.kinesis.client.success", "aws.kinesis.client.workers"} <= names
    assert collector.metric("aws.kinesis.client.records_processed", 0).sum.data_points
