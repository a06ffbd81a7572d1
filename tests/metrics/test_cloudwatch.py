"""Metrics in CloudWatch, over HTTP: the stand-in's moto keeps them, and a server of this module shows the requests themselves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.clients.clients import cloudwatch_client
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics.cloudwatch import MOST_IN_A_CALL, CloudWatchSink
from headrace.pipeline.metrics.statistics import Datum, Statistics
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.metrics.http_answers import Answer, Answering, answering
from tests.metrics.metered_world import MeteredWorld

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

REFUSED = Answer(400, b'{"__type":"AccessDeniedException","message":"no"}')


@pytest.fixture
def namespace() -> str:
    return f"app-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(aws: LocalAws) -> CloudWatchClient:
    # moto loads its CloudWatch with the first request, which takes longer on a busy machine than the product waits.
    aws.client("cloudwatch").list_metrics()
    return cloudwatch_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))


def a_datum(shard: str, *values: float) -> Datum:
    statistics = Statistics.of(values[0])
    for value in values[1:]:
        statistics.add(value)
    return Datum(kcl.MILLIS_BEHIND, (("Operation", "ProcessTask"), ("ShardId", shard)), statistics)


def test_statistic_sets_come_back_as_they_were_sent(client: CloudWatchClient, namespace: str) -> None:
    sink = CloudWatchSink(lambda: client, namespace)
    assert sink.send([a_datum("s0", 5, 1, 9), a_datum("s1", 2)]) is None
    assert sink.send([a_datum("s0", 11)]) is None
    now = datetime.now(UTC)
    (point,) = client.get_metric_statistics(
        Namespace=namespace,
        MetricName="MillisBehindLatest",
        Dimensions=[{"Name": "Operation", "Value": "ProcessTask"}, {"Name": "ShardId", "Value": "s0"}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(hours=1),
        Period=86_400,
        Statistics=["Sum", "Minimum", "Maximum", "SampleCount"],
    )["Datapoints"]
    # moto keeps a set's sum as one value. AWS keeps all four.
    assert point["Sum"] == 5 + 1 + 9 + 11


def test_a_whole_application_lists_its_series_in_its_namespace(
    client: CloudWatchClient, namespace: str
) -> None:
    metered = MeteredWorld()
    metered.sink = CloudWatchSink(lambda: client, namespace)  # type: ignore[assignment]
    metered.tick(3)
    metered.world.produce(0, 3)
    metered.run()
    metered.publishing.flush()
    metered.close()
    listed = {
        (next(d["Value"] for d in metric["Dimensions"] if d["Name"] == "Operation"), metric["MetricName"])
        for page in client.get_paginator("list_metrics").paginate(Namespace=namespace)
        for metric in page["Metrics"]
    }
    assert ("ProcessTask", "MillisBehindLatest") in listed
    assert ("LeaseAssignmentManager", "TotalLeases") in listed
    assert ("RenewAllLeases", "CurrentLeases") in listed


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering() as state:
        yield state


def _sink_on(server: Answering) -> CloudWatchSink:
    client = cloudwatch_client(AwsSettings(region="eu-west-1", endpoint=server.url))
    return CloudWatchSink(lambda: client, "app")


def _requests(server: Answering) -> list[dict[str, Any]]:
    return [json.loads(sent.body) for sent in server.sent]


def test_a_datum_has_kcls_form(server: Answering) -> None:
    assert _sink_on(server).send([a_datum("s0", 5, 1, 9)]) is None
    (request,) = _requests(server)
    assert request["Namespace"] == "app"
    assert request["MetricData"] == [
        {
            "MetricName": "MillisBehindLatest",
            "Dimensions": [{"Name": "Operation", "Value": "ProcessTask"}, {"Name": "ShardId", "Value": "s0"}],
            "Unit": "Milliseconds",
            "StatisticValues": {"SampleCount": 3, "Sum": 15, "Minimum": 1, "Maximum": 9},
        }
    ]


def test_many_series_go_in_batches_that_cloudwatch_takes(server: Answering) -> None:
    data = [a_datum(f"shardId-{number:012d}", number) for number in range(2 * MOST_IN_A_CALL + 1)]
    assert _sink_on(server).send(data) is None
    sizes = [len(request["MetricData"]) for request in _requests(server)]
    assert sizes == [MOST_IN_A_CALL, MOST_IN_A_CALL, 1]
    assert max(sizes) <= 1000
    assert max(len(json.dumps(request)) for request in _requests(server)) < 1_000_000


def test_a_refused_batch_is_told_with_all_that_comes_after_it(server: Answering) -> None:
    server.answer = lambda number: Answer() if number == 1 else REFUSED
    data = [a_datum(f"s{number}", number) for number in range(3 * MOST_IN_A_CALL)]
    refusal = _sink_on(server).send(data)
    assert refusal is not None
    assert refusal.values == 2 * MOST_IN_A_CALL
    assert "AccessDeniedException" in refusal.why
    assert len(server.sent) == 2
