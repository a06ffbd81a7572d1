"""The client of a reading task: after a stream's first request, GetRecords bypasses botocore, and gives the same answers."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.pages_client import date_of, held_body, reader_client, request_id_of
from headrace.pipeline.aws.reading.pages_wire import ARGUMENT, CBOR, is_cbor
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.task_identity import AwsKeys, TaskIdentity
from tests.aws.raw_server import PLAIN, Server
from tests.stand_in import access_to

AKID = TaskIdentity(keys=AwsKeys("AKID", "key"))
WIRES = [{}, {ARGUMENT: CBOR}]


class Orders:
    """A stream with two records, and its reader, which counts the requests that botocore makes."""

    def __init__(self, served: LocalAws) -> None:
        self.reader = reader_client(access_to(served))
        self.by_botocore = 0
        self.reader.client.meta.events.register("before-call.kinesis.GetRecords", self._count)
        self.name = f"s-{uuid4().hex[:8]}"
        client: Any = self.reader.client
        client.create_stream(StreamName=self.name, ShardCount=1)
        self.arn = client.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"][
            "StreamARN"
        ]
        for data in (b"one", b"two"):
            client.put_record(StreamName=self.name, Data=data, PartitionKey="k")

    def read(self, **more: Any) -> Mapping[str, Any]:
        iterator = self.reader.get_shard_iterator(
            StreamARN=self.arn, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        return self.reader.get_records(
            **{"ShardIterator": iterator, "StreamARN": self.arn, "Limit": 10, **more}
        )

    def _count(self, **_: object) -> None:
        self.by_botocore += 1


@pytest.fixture
def orders(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orders]:
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    yield Orders(aws)
    aws.clear_faults()


@pytest.mark.parametrize("wire", WIRES)
def test_later_answers_are_those_that_botocore_gives(orders: Orders, wire: dict[str, str]):
    first, second, third = (orders.read(**wire) for _ in range(3))
    assert orders.by_botocore == 1
    assert is_cbor(first) == is_cbor(second) == is_cbor(third) == bool(wire)
    assert b"SequenceNumber" in held_body(first)
    assert len(held_body(first)) == len(held_body(second)) == len(held_body(third))
    assert date_of(second) is not None
    assert request_id_of(second) not in ("without an id", request_id_of(third))


@pytest.mark.parametrize("wire", WIRES)
def test_a_throttled_request_is_not_sent_again(orders: Orders, aws: LocalAws, wire: dict[str, str]):
    orders.read()
    aws.inject("throttle", operation="GetRecords", count=1)
    with pytest.raises(ClientError) as refused:
        orders.read(**wire)
    assert refused.value.response["Error"]["Code"] == "ProvisionedThroughputExceededException"
    assert orders.by_botocore == 1
    assert orders.read(**wire)["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_an_error_of_the_server_is_not_sent_again(orders: Orders, aws: LocalAws):
    orders.read()
    aws.inject("error", operation="GetRecords", count=1)
    with pytest.raises(ClientError) as failed:
        orders.read()
    assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
    assert orders.by_botocore == 1


@pytest.mark.parametrize("wire", WIRES)
def test_any_other_refusal_is_asked_for_again_by_botocore_whose_error_counts(
    orders: Orders, wire: dict[str, str]
):
    orders.read()
    with pytest.raises(ClientError) as refused:
        orders.read(ShardIterator="nonsense", **wire)
    assert refused.value.response["Error"]["Code"] == "InvalidArgumentException"
    assert orders.by_botocore == 2


def test_after_a_closed_connection_botocore_opens_another_one():
    server = Server(ending=b"}")
    reader = reader_client(KinesisAccess("eu-west-1", server.url, AKID))
    asked = {
        "ShardIterator": "it",
        "StreamARN": "arn:aws:kinesis:eu-west-1:123456789012:stream/s",
        "Limit": 10,
    }
    server.answers = iter([PLAIN, PLAIN, None, PLAIN, PLAIN])
    assert [bytes(held_body(reader.get_records(**asked))) for _ in range(4)] == [b"{}"] * 4
    assert server.connections == 2
    assert len(server.requests) == 5
    server.close()


def test_each_stream_is_read_at_the_endpoint_that_botocore_chose_for_it(monkeypatch: pytest.MonkeyPatch):
    """AWS has an endpoint for each account, which botocore takes from the stream's ARN."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    reader = reader_client(KinesisAccess("eu-west-1", identity=AKID))
    sent: list[str] = []

    def refuse(request: Any, **_: object) -> None:
        sent.append(request.url)
        raise ConnectionError

    reader.client.meta.events.register("before-send.kinesis.GetRecords", refuse)
    arns = [f"arn:aws:kinesis:eu-west-1:{account}:stream/s" for account in (111111111111, 222222222222)]
    for arn in arns:
        with pytest.raises(ConnectionError):
            reader.get_records(ShardIterator="it", StreamARN=arn, Limit=10)
    assert {arn: reader._open[arn][0] for arn in arns} == dict(zip(arns, sent, strict=True))
    assert len(set(sent)) == 2
