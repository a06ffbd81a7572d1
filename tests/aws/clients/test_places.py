"""Each service is asked at its own place and by its own identity, and a role is assumed anew before it expires."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs
from uuid import uuid4

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.aws.clients.clients import cloudwatch_client, dynamodb_client, kinesis_client
from headrace.pipeline.aws.reading.by_stream import ConsumersByStream, SourcesByStream
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings, ServiceSettings
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.task_identity import AssumedRole, AwsKeys, TaskIdentity

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

ROLE = "arn:aws:iam::210987654321:role/streams"
APART = AwsSettings(
    region="eu-west-1",
    endpoint="http://127.0.0.1:1",
    dynamodb=ServiceSettings(region="eu-central-1", endpoint="http://127.0.0.1:2"),
    cloudwatch=ServiceSettings(region="us-east-1"),
)


class Sts:
    """STS, which gives another key for each call. `lasts`: how long the keys are valid."""

    def __init__(self, lasts: timedelta = timedelta(hours=1)) -> None:
        self.lasts = lasts
        self.calls: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(sts) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (the handler has a self of its own)
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                form = parse_qs(self.rfile.read(length).decode())
                sts.calls.append({name: values[0] for name, values in form.items()})
                until = (datetime.now(UTC) + sts.lasts).strftime("%Y-%m-%dT%H:%M:%SZ")
                body = (
                    '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
                    f"<AccessKeyId>ASIA{len(sts.calls)}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                    f"<SessionToken>t</SessionToken><Expiration>{until}</Expiration></Credentials>"
                    f"<AssumedRoleUser><AssumedRoleId>A:h</AssumedRoleId><Arn>{ROLE}</Arn></AssumedRoleUser>"
                    "</AssumeRoleResult></AssumeRoleResponse>"
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        return Handler


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sts]:
    server = Sts()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.endpoint)
    yield server
    server.close()


def key_of(client: Any) -> str:
    return str(client._request_signer._credentials.get_frozen_credentials().access_key)  # no public name


@pytest.mark.parametrize(
    ("make", "region", "endpoint"),
    [
        (kinesis_client, "eu-west-1", "http://127.0.0.1:1"),
        (dynamodb_client, "eu-central-1", "http://127.0.0.1:2"),
        (cloudwatch_client, "us-east-1", "http://127.0.0.1:1"),
    ],
)
def test_each_service_is_asked_in_its_own_region_and_at_its_own_endpoint(
    make: Any, region: str, endpoint: str
) -> None:
    client = make(APART)
    assert (client.meta.region_name, client.meta.endpoint_url) == (region, endpoint)


def test_a_role_is_assumed_for_its_service_alone_and_with_its_external_id(sts: Sts) -> None:
    aws = AwsSettings(region="eu-west-1", dynamodb=ServiceSettings(role=ROLE, external_id="shop"))
    assert not key_of(kinesis_client(aws)).startswith("ASIA")
    table_client = dynamodb_client(aws)
    assert sts.calls == [], "a client that asks nothing needs no role"
    assert key_of(table_client) == "ASIA1"
    assert (sts.calls[0]["RoleArn"], sts.calls[0]["ExternalId"]) == (ROLE, "shop")


def test_a_role_is_assumed_anew_before_it_expires_and_kept_until_then(sts: Sts) -> None:
    client = dynamodb_client(AwsSettings(region="eu-west-1", dynamodb=ServiceSettings(role=ROLE)))
    assert [key_of(client), key_of(client)] == ["ASIA1", "ASIA1"]
    sts.lasts = timedelta(minutes=1)
    fresh = dynamodb_client(AwsSettings(region="eu-west-1", dynamodb=ServiceSettings(role=ROLE)))
    assert [key_of(fresh), key_of(fresh)] == ["ASIA2", "ASIA3"]


def test_a_task_assumes_the_role_by_itself_with_the_drivers_keys_and_anew_in_the_middle_of_a_wave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment of the task's host says nothing of where STS is."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    sts = Sts(lasts=timedelta(minutes=1))
    try:
        role = AssumedRole(arn=ROLE, region="eu-west-1", endpoint=sts.endpoint)
        identity = TaskIdentity(keys=AwsKeys("AKIDDRIVER", "secret"), role=role)
        credentials = identity.session().get_credentials()
        assert credentials is not None
        assert [credentials.get_frozen_credentials().access_key for _ in range(2)] == ["ASIA1", "ASIA2"]
        assert sts.calls[0]["RoleArn"] == ROLE
    finally:
        sts.close()


def test_a_stream_with_a_role_is_read_by_it_in_ticks_and_tasks_and_the_others_are_not(
    aws: LocalAws, kinesis: KinesisClient, sts: Sts
) -> None:
    names = [f"s-{uuid4().hex[:8]}" for _ in range(2)]
    for name in names:
        kinesis.create_stream(StreamName=name, ShardCount=1)
        kinesis.put_record(StreamName=name, Data=b"one", PartitionKey="k")
    settings = Settings(
        application="app",
        aws=AwsSettings(region=aws.region, kinesis=ServiceSettings(endpoint=f"{aws.endpoint}/")),
        streams=(StreamSettings(name=names[0], role=ROLE), StreamSettings(name=names[1])),
    )
    ports = Adapters(settings)
    for name, calls in zip(reversed(names), (0, 1), strict=True):
        facts = ports.source("test").describe(name)
        assert len(sts.calls) == calls
        key = ShardKey(facts.stream, "shardId-000000000000")
        batch = Batch(key, None, TRIM, facts.asked, facts.retention)
        assert next(ports.pages().pages(batch)).rows == 1
        assert next(ports.pages_of_windows().pages(batch)).rows == 1
        assert ports.consumers().of(facts.stream) == ()
        assert bool(sts.calls) == bool(calls)


def test_shards_of_several_roles_are_asked_each_by_its_own() -> None:
    class Source:
        def __init__(self, name: str) -> None:
            self.name = name

        def has_news(self, keys: Any) -> frozenset[Any]:
            assert {key.stream.name for key in keys} <= {self.name, "third"} - (
                {"third"} if self.name == "first" else set()
            )
            return frozenset(keys)

        def arrivals(self, keys: Any) -> dict[Any, str]:
            return dict.fromkeys(keys, self.name)

    keys = {
        ShardKey(StreamId(f"arn:aws:kinesis:eu-west-1:123456789012:stream/{name}", 1), f"shardId-{n:012}"): n
        for n, name in enumerate(("first", "second", "third", "first"))
    }
    sources: Any = SourcesByStream(Source("second"), {"first": Source("first")})  # type: ignore[arg-type,dict-item]
    assert sources.has_news(keys) == frozenset(keys)
    assert sorted(sources.arrivals(keys).values()) == ["first", "first", "second", "second"]
    assert sources.has_news({}) == frozenset()


def test_a_consumer_is_ended_by_the_role_of_its_stream() -> None:
    class Ends:
        def __init__(self) -> None:
            self.ended: list[str] = []

        def deregister(self, consumer: Any) -> None:
            self.ended.append(consumer.arn)

    class Consumer:
        arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/first/consumer/shop:1"

    others, own = Ends(), Ends()
    ConsumersByStream(others, {"first": own}).deregister(Consumer())  # type: ignore[arg-type,dict-item]
    assert (others.ended, own.ended) == ([], [Consumer.arn])


def test_what_a_command_says_of_aws_counts_for_every_service() -> None:
    own = replace(
        APART, dynamodb=ServiceSettings(region="eu-central-1", profile="tables", role=ROLE, external_id="x")
    )
    elsewhere = own.at(region="us-west-2", profile="mine")
    place = elsewhere.of("dynamodb")
    assert (place.region, place.profile, place.role, place.external_id) == ("us-west-2", "mine", None, None)
    assert own.at().of("dynamodb") == own.of("dynamodb")
