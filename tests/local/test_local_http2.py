"""The stand-in over HTTP/2: what the Java SDK needs for SubscribeToShard, and what readers have to survive there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.local.server import Tls, serve
from tests.certificate import a_certificate
from tests.eventually import eventually
from tests.local.http2_client import Http2Client

SHARD = "shardId-000000000000"
Connect = Callable[..., Http2Client]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """One stand-in, in the clear and by TLS."""
    certificate, key = a_certificate(tmp_path_factory.mktemp("tls"))
    options = ("--transition", "0", "--heartbeat", "0.05", "--tls", str(certificate), str(key))
    with local_aws(*options) as aws:
        yield aws


@pytest.fixture
def connect(both: LocalAws) -> Iterator[Connect]:
    clients: list[Http2Client] = []

    def made(endpoint: str = both.endpoint, **more: Any) -> Http2Client:
        clients.append(Http2Client(endpoint, **more))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


@pytest.fixture
def consumer(both: LocalAws) -> str:
    """The ARN of a consumer of a new stream."""
    kinesis, name = both.client("kinesis"), f"s-{uuid4().hex[:12]}"
    kinesis.create_stream(StreamName=name, ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    registered = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="java")
    return str(registered["Consumer"]["ConsumerARN"])


def stream_of(consumer: str) -> str:
    return consumer.partition("/consumer/")[0].rpartition("/")[2]


def put(both: LocalAws, consumer: str, *payloads: bytes) -> None:
    entries = [{"Data": data, "PartitionKey": "k"} for data in payloads]
    both.client("kinesis").put_records(StreamName=stream_of(consumer), Records=entries)


def subscribe(client: Http2Client, consumer: str) -> int:
    return client.ask(
        "SubscribeToShard", ConsumerARN=consumer, ShardId=SHARD, StartingPosition={"Type": "TRIM_HORIZON"}
    )


def records_of(messages: list[tuple[str, Any]]) -> int:
    return sum(len(content.get("Records", ())) for _, content in messages)


@pytest.mark.parametrize("way", ["endpoint", "tls_endpoint"])
def test_one_connection_carries_other_calls_and_subscriptions_in_the_clear_and_by_tls_without_alpn(
    both: LocalAws, connect: Connect, consumer: str, way: str
):
    client = connect(getattr(both, way))
    put(both, consumer, b"first")
    subscribed = subscribe(client, consumer)
    begun, first = client.messages(subscribed, 2)
    listed = client.answer(client.ask("ListShards", StreamName=stream_of(consumer)))
    put(both, consumer, b"second")
    while records_of(client.answers[subscribed].messages()) < 2:
        client.receive()

    assert (begun, first[0]) == (("initial-response", {}), "SubscribeToShardEvent")
    assert (listed.status, listed.json()["Shards"][0]["ShardId"]) == (200, SHARD)
    assert client.answers[subscribed].headers["content-type"] == "application/vnd.amazon.eventstream"


@pytest.mark.parametrize("way", ["endpoint", "tls_endpoint"])
def test_http_1_is_served_at_the_same_ports(both: LocalAws, way: str):
    session: Any = both.client("kinesis", verify=False) if way == "endpoint" else None
    if session is None:
        session = LocalAws(str(both.tls_endpoint)).client("kinesis", verify=False)
    with pytest.warns(Warning, match="certificate") if way == "tls_endpoint" else nullcontext():
        assert "StreamNames" in session.list_streams()


def test_errors_and_faults_are_the_same_as_over_http_1(both: LocalAws, connect: Connect, consumer: str):
    client = connect()
    refused = client.answer(client.ask("SubscribeToShard", ConsumerARN="x", ShardId=SHARD))
    both.inject("throttle", operation="DescribeStreamSummary", resource=stream_of(consumer), count=1)
    throttled = client.answer(client.ask("DescribeStreamSummary", StreamName=stream_of(consumer)))
    described = client.answer(client.ask("DescribeStreamSummary", StreamName=stream_of(consumer)))

    assert (refused.status, throttled.status, described.status) == (400, 400, 200)
    assert throttled.json()["__type"] == "LimitExceededException"


def test_a_second_subscription_is_refused_and_takes_over_after_five_seconds(
    both: LocalAws, connect: Connect, consumer: str
):
    client = connect()
    first = subscribe(client, consumer)
    client.messages(first, 1)
    refused = client.answer(subscribe(client, consumer))
    both.advance(6)
    second = subscribe(client, consumer)
    thrown_out = client.answer(first)

    assert (refused.status, refused.json()["__type"]) == (400, "ResourceInUseException")
    assert thrown_out.messages()[-1][0] == "ResourceInUseException"
    assert client.messages(second, 2)[1][0] == "SubscribeToShardEvent"


def test_a_subscription_ends_after_five_minutes_and_the_connection_stays(
    both: LocalAws, connect: Connect, consumer: str
):
    client = connect()
    subscribed = subscribe(client, consumer)
    client.messages(subscribed, 1)
    both.advance(301)
    ended = client.answer(subscribed)

    assert (ended.ended, ended.reset) == (True, False)
    assert client.answer(client.ask("ListStreams")).status == 200


@pytest.mark.parametrize("kind", ["cut", "end", "exception"])
def test_a_fault_ends_one_stream_and_no_other(both: LocalAws, connect: Connect, consumer: str, kind: str):
    client = connect()
    both.inject(kind, operation="SubscribeToShard", resource=stream_of(consumer), count=1)
    put(both, consumer, b"first" * 100)
    ended = client.answer(subscribe(client, consumer))

    assert ended.reset is (kind == "cut")
    assert records_of(ended.messages()) == 0
    assert (ended.messages()[-1][0] == "InternalFailure") is (kind == "exception")
    assert client.answer(client.ask("ListStreams")).status == 200


def test_a_broken_checksum_and_silence_come_over_http_2_too(both: LocalAws, connect: Connect, consumer: str):
    client = connect()
    both.inject("bad_crc", operation="SubscribeToShard", resource=stream_of(consumer), count=1)
    put(both, consumer, b"first")
    broken = client.answer(subscribe(client, consumer))
    both.advance(6)
    both.inject("silence", operation="SubscribeToShard", resource=stream_of(consumer), count=1)
    silent = subscribe(client, consumer)
    client.messages(silent, 1)

    with pytest.raises(ValueError, match="checksum"):
        broken.messages()
    # Events would come every 50 ms.
    eventually(lambda: both.faults()[-1]["taken"] == 1, "the fault struck", within=10)
    assert client.answer(client.ask("ListStreams")).status == 200
    assert len(client.answers[silent].messages()) == 1


def test_a_lost_answer_is_a_reset_stream_of_a_request_that_was_carried_out(
    both: LocalAws, connect: Connect, consumer: str
):
    client = connect()
    both.inject("lost", operation="PutRecord", resource=stream_of(consumer), count=1)
    given = {"StreamName": stream_of(consumer), "PartitionKey": "k", "Data": "aGVsbG8="}
    lost = client.answer(client.ask("PutRecord", **given))

    assert (lost.reset, lost.headers) == (True, {})
    assert records_of(client.messages(subscribe(client, consumer), 2)) == 1


def test_a_reader_that_takes_nothing_holds_its_own_stream_back_and_no_other(
    both: LocalAws, connect: Connect, consumer: str
):
    client = connect(window=1000)
    put(both, consumer, b"x" * 100_000)
    subscribed = subscribe(client, consumer)
    while len(client.answers[subscribed].body) < 1000:
        client.receive(acknowledge=False)
    other = connect()
    listed = other.answer(other.ask("ListStreams"))
    held_back = len(client.answers[subscribed].body)
    client.h2.increment_flow_control_window(1 << 20, subscribed)
    client.write()

    assert (listed.status, held_back) == (200, 1000)
    assert records_of(client.messages(subscribed, 2)) == 1


def test_a_reader_that_resets_its_stream_ends_its_subscription(
    both: LocalAws, connect: Connect, consumer: str
):
    client, other = connect(), connect()
    # A fault that never strikes counts the events.
    both.inject("end", operation="SubscribeToShard", resource=stream_of(consumer), skip=10**6)
    first = subscribe(client, consumer)
    client.messages(first, 3)
    client.reset(first)
    assert client.answer(client.ask("ListStreams")).status == 200
    sent = both.faults()[-1]["seen"]
    kinesis, name = both.client("kinesis"), f"s-{uuid4().hex[:12]}"
    kinesis.create_stream(StreamName=name, ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    registered = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="other")["Consumer"]
    other.messages(subscribe(other, registered["ConsumerARN"]), 6)

    assert sent >= 2
    assert both.faults()[-1]["seen"] == sent


def test_a_request_that_is_reset_at_once_ends_no_connection(both: LocalAws, connect: Connect, consumer: str):
    client = connect()
    body = b'{"StreamName": "x"}'
    stream_id = client.h2.get_next_available_stream_id()
    fields = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "localhost")]
    client.h2.send_headers(stream_id, fields)
    client.h2.send_data(stream_id, body, end_stream=True)
    client.h2.reset_stream(stream_id)
    client.write()

    assert client.answer(client.ask("ListStreams")).status == 200


def test_large_bodies_pass_in_both_directions(both: LocalAws, connect: Connect, consumer: str):
    client = connect()
    client.h2.increment_flow_control_window(1 << 24)
    data = "eHh4" * 250_000
    records = [{"Data": data, "PartitionKey": "k"}] * 4
    taken = client.answer(client.ask("PutRecords", StreamName=stream_of(consumer), Records=records))
    token = client.answer(
        client.ask(
            "GetShardIterator",
            StreamName=stream_of(consumer),
            ShardId=SHARD,
            ShardIteratorType="TRIM_HORIZON",
        )
    )
    page = client.answer(client.ask("GetRecords", ShardIterator=token.json()["ShardIterator"]))

    assert taken.json()["FailedRecordCount"] == 0
    assert [record["Data"] for record in page.json()["Records"]] == [data] * 4


def test_moto_and_the_control_endpoints_answer_over_http_2(both: LocalAws, connect: Connect):
    client = connect()
    scope = {"authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, "}
    tables = client.send(
        "POST",
        "/",
        {
            **scope,
            "x-amz-target": "DynamoDB_20120810.ListTables",
            "content-type": "application/x-amz-json-1.0",
        },
        b"{}",
    )
    health = client.send("GET", "/_headrace/health", {})

    assert client.answer(health).json()["status"] == "ok"
    assert "TableNames" in client.answer(tables).json()


def test_two_hundred_subscriptions_share_connections_and_leave_none_behind(both: LocalAws, connect: Connect):
    kinesis, name = both.client("kinesis"), f"s-{uuid4().hex[:12]}"
    kinesis.create_stream(StreamName=name, ShardCount=200)
    arn = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    consumer = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="java")["Consumer"]["ConsumerARN"]
    clients = [connect(), connect()]
    streams = [
        (
            clients[n % 2],
            clients[n % 2].ask(
                "SubscribeToShard",
                ConsumerARN=consumer,
                ShardId=f"shardId-{n:012d}",
                StartingPosition={"Type": "LATEST"},
            ),
        )
        for n in range(200)
    ]

    assert {client.messages(stream, 2)[1][0] for client, stream in streams} == {"SubscribeToShardEvent"}


def test_bytes_that_stop_being_http_2_close_the_connection(connect: Connect):
    client = connect()
    client.receive()
    client._sock.sendall(bytes(9))
    while not client.terminated:
        client.receive()


@pytest.mark.parametrize("piece", [1, 5, 23, 24])
def test_the_form_is_told_by_the_first_bytes_however_they_are_cut(both: LocalAws, piece: int):
    place = urlsplit(both.endpoint)
    for first, wanted in (
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", b"\x00\x00"),
        (b"PUT /_headrace/health HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 404"),
    ):
        with socket.create_connection((place.hostname, place.port), timeout=10) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(first), piece):
                sock.sendall(first[start : start + piece])
            assert sock.recv(1000).startswith(wanted)


def test_a_stand_in_that_stops_ends_subscriptions_and_says_so():
    with serve(transition=0) as server:
        aws = LocalAws(server.endpoint)
        kinesis = aws.client("kinesis")
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        arn = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]
        made = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="java")
        client = Http2Client(server.endpoint)
        client.messages(subscribe(client, made["Consumer"]["ConsumerARN"]), 1)
    while not client.terminated:
        client.receive()
    client.close()


def test_a_client_that_speaks_no_tls_harms_nobody(tmp_path: Path):
    with serve(tls=Tls(*a_certificate(tmp_path))) as server:
        place = urlsplit(str(server.tls_endpoint))
        with socket.create_connection((place.hostname, place.port), timeout=10) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert not sock.recv(1000).startswith(b"HTTP/1.1 200")
        client = Http2Client(str(server.tls_endpoint))
        assert client.answer(client.ask("ListStreams")).status == 200
        client.close()
