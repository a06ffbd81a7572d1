"""A look at an idle shard that bypasses botocore: its answer, and when the ordinary client has to ask instead."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headrace.pipeline.aws.clients.clients import kinesis_client
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.aws.reading.quick_peek import QuickPeek
from headrace.pipeline.aws.reading.signing import signed_headers
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


class Orders:
    """A stream of one shard, and an iterator at its start."""

    def __init__(self, served: LocalAws) -> None:
        self.client: KinesisClient = kinesis_client(
            AwsSettings(region=served.region, endpoint=served.endpoint)
        )
        self.name = f"s-{uuid4().hex[:8]}"
        self.client.create_stream(StreamName=self.name, ShardCount=1)
        self.source = KinesisSource(self.client)
        stream = self.source.describe(self.name).stream
        self.key = ShardKey(stream, "shardId-000000000000")

    def iterator(self) -> str:
        return self.client.get_shard_iterator(
            StreamName=self.name, ShardId=self.key.shard_id, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]

    def peek(self, iterator: str) -> dict[str, Any] | None:
        return QuickPeek(self.client).first_record(iterator, self.key.stream.arn)

    def put(self) -> str:
        return self.client.put_record(StreamName=self.name, Data=b"{}", PartitionKey="k")["SequenceNumber"]


@pytest.fixture
def orders(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orders]:
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    yield Orders(aws)
    aws.clear_faults()


def test_a_quick_look_gives_the_same_answer_as_the_ordinary_client(orders: Orders):
    empty = orders.peek(orders.iterator())
    number = orders.put()
    found = orders.peek(orders.iterator())
    assert empty is not None
    assert (empty["Records"], empty["MillisBehindLatest"], bool(empty["NextShardIterator"])) == ([], 0, True)
    assert found is not None
    assert [record["SequenceNumber"] for record in found["Records"]] == [number]


@pytest.mark.parametrize("fault", ["throttle", "error"])
def test_after_any_unusual_answer_the_ordinary_client_asks(orders: Orders, aws: LocalAws, fault: str):
    iterator = orders.iterator()
    aws.inject(fault, operation="GetRecords", count=1)
    assert orders.peek(iterator) is None


def test_with_an_invalid_iterator_the_ordinary_client_asks(orders: Orders):
    assert orders.peek("nonsense") is None


def test_if_there_is_no_answer_the_ordinary_client_asks():
    nowhere = kinesis_client(AwsSettings(region="eu-west-1", endpoint="http://127.0.0.1:1"))
    assert QuickPeek(nowhere).first_record("it", "arn") is None


def test_a_later_look_at_a_shard_finds_a_record_that_came_since(orders: Orders):
    at = {orders.key: Start()}
    assert orders.source.has_news(at) == frozenset()
    assert orders.source.has_news(at) == frozenset()
    orders.put()
    assert orders.source.has_news(at) == {orders.key}


@pytest.mark.parametrize("token", [None, "a+token/with=signs"])
@pytest.mark.parametrize(
    "url",
    [
        "https://kinesis.eu-west-1.amazonaws.com",
        "http://127.0.0.1:4566",
        "https://proxy.example:8443/kinesis",
    ],
)
@pytest.mark.parametrize("kind", ["application/x-amz-json-1.1", "application/x-amz-cbor-1.1"])
def test_the_signature_is_the_one_that_botocore_makes(url: str, token: str | None, kind: str):
    keys, body = Credentials("AKID", "secret/with+signs", token), b'{"Limit": 1}'
    headers = dict(
        signed_headers(
            body,
            url,
            "eu-west-1",
            keys=keys.get_frozen_credentials(),
            now=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            kind=kind,
        )
    )
    ours = headers.pop("authorization")
    del headers["user-agent"]

    botocores = AWSRequest("POST", url, headers=headers, data=body)
    botocores.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(keys, "kinesis", "eu-west-1")
    text = auth.string_to_sign(botocores, auth.canonical_request(botocores))

    assert headers["content-type"] == kind
    assert headers["x-amz-date"] == "20260102T030405Z"
    assert headers.get("x-amz-security-token") == token
    assert ours == (
        f"AWS4-HMAC-SHA256 Credential={auth.scope(botocores)}, "
        f"SignedHeaders={auth.signed_headers(auth.headers_to_sign(botocores))}, Signature={auth.signature(text, botocores)}"
    )


def test_a_quick_look_goes_through_the_proxy_that_the_ordinary_client_uses(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    behind_a_proxy = kinesis_client(AwsSettings(region="eu-west-1", endpoint=orders.client.meta.endpoint_url))
    assert QuickPeek(behind_a_proxy).first_record(orders.iterator(), orders.key.stream.arn) is None
