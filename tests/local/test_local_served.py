"""The stand-in in a process of its own, by boto3 over HTTP: concurrency, dates, faults, other services."""

from __future__ import annotations

import os
import socket
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection
from threading import Barrier
from uuid import uuid4

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from headrace.pipeline.encoding.cbor import decoded, encoded
from tests.local.builders import (
    a_page,
    a_stream,
    an_iterator,
    data_of,
    ids_of,
    put,
    read_out,
    refuses,
    shards_of,
    split,
)

WRITERS = 12


@pytest.fixture
def name():
    return f"n{uuid4().hex}"


@pytest.fixture
def kinesis(served):
    return served.client("kinesis")


@pytest.fixture
def dynamodb(served):
    return served.client("dynamodb")


@pytest.fixture
def s3(served):
    return served.client("s3")


@pytest.fixture
def table(dynamodb, name):
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


@pytest.fixture
def bucket(s3, name):
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def clean_faults(served):
    yield
    served.clear_faults()
    served.set_clock_off(0)


def together(work):
    """Call `work` in 12 threads that start at the same time."""
    barrier = Barrier(WRITERS)

    def start_with_the_others(writer):
        barrier.wait()
        return work(writer)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(start_with_the_others, range(WRITERS)))


def test_12_concurrent_writers_neither_lose_nor_double_a_record_while_shards_split(served, kinesis, name):
    a_stream(kinesis, 2, name=name)
    clients = [served.client("kinesis") for _ in range(WRITERS)]

    def write(writer):
        for batch in range(20):
            records = [
                {"Data": f"{writer}:{batch}:{n}".encode(), "PartitionKey": f"{writer}-{n % 5}"}
                for n in range(25)
            ]
            answer = clients[writer].put_records(StreamName=name, Records=records)
            assert answer["FailedRecordCount"] == 0
            if writer == 0 and batch in {5, 10}:
                split(clients[writer], batch // 5, stream=name)

    together(write)
    read = defaultdict(list)
    for index in ids_of(kinesis, name):
        for record in read_out(kinesis, an_iterator(kinesis, index, stream=name)):
            read[record["PartitionKey"]].append(record["Data"].decode())
    expected = {
        f"{writer}-{key}": [f"{writer}:{batch}:{n}" for batch in range(20) for n in range(25) if n % 5 == key]
        for writer in range(WRITERS)
        for key in range(5)
    }
    assert read == expected
    assert len(ids_of(kinesis, name)) == 6


def test_a_conditional_put_item_has_exactly_one_winner(served, dynamodb, table):
    clients = [served.client("dynamodb") for _ in range(WRITERS)]

    def claim(writer):
        won = []
        for key in range(10):
            item = {"id": {"S": str(key)}, "owner": {"S": str(writer)}}
            try:
                clients[writer].put_item(
                    TableName=table, Item=item, ConditionExpression="attribute_not_exists(id)"
                )
                won.append(key)
            except clients[writer].exceptions.ConditionalCheckFailedException:
                continue
        return won

    wins = together(claim)
    owners = {item["id"]["S"]: item["owner"]["S"] for item in dynamodb.scan(TableName=table)["Items"]}
    assert Counter(key for won in wins for key in won) == Counter(range(10))
    assert owners == {str(key): str(writer) for writer, won in enumerate(wins) for key in won}


def test_a_conditional_put_object_has_exactly_one_winner(served, s3, bucket):
    clients = [served.client("s3") for _ in range(WRITERS)]

    def claim(writer):
        try:
            clients[writer].put_object(Bucket=bucket, Key="head", Body=str(writer).encode(), IfNoneMatch="*")
        except ClientError as error:
            return error.response["Error"]["Code"]
        return writer

    results = together(claim)
    winner = int(s3.get_object(Bucket=bucket, Key="head")["Body"].read())
    assert Counter(results) == Counter({winner: 1, "PreconditionFailed": WRITERS - 1})


@pytest.mark.usefixtures("clean_faults")
@pytest.mark.parametrize("seconds", [60, -60])
def test_every_answers_date_is_the_stand_ins_time_not_the_hosts(
    served, kinesis, dynamodb, s3, name, table, bucket, seconds
):
    served.set_clock_off(0)
    a_stream(kinesis, name=name)

    def dates():
        with pytest.raises(ClientError) as raised:
            put(kinesis, stream="unknown")
        answers = [
            kinesis.describe_stream_summary(StreamName=name),
            raised.value.response,
            dynamodb.scan(TableName=table),
            s3.list_objects_v2(Bucket=bucket),
            served.client("sts").get_caller_identity(),
        ]
        return [
            parsedate_to_datetime(a["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp() for a in answers
        ]

    before = dates()
    served.set_clock_off(seconds)
    moved = [after - earlier for earlier, after in zip(before, dates(), strict=True)]
    # The bounds are wide because the host's clock goes on between the two rounds, by less than half a minute.
    assert all(seconds - 2 < difference < seconds + 30 for difference in moved)


@pytest.mark.usefixtures("clean_faults")
def test_records_arrive_and_iterators_expire_by_the_stand_ins_clock(served, kinesis, name):
    a_stream(kinesis, name=name)
    token = an_iterator(kinesis, stream=name)
    served.advance(3600)
    put(kinesis, stream=name)
    with refuses("ExpiredIteratorException"):
        kinesis.get_records(ShardIterator=token)
    arrival = a_page(kinesis, stream=name)["Records"][0]["ApproximateArrivalTimestamp"].timestamp()
    assert abs(served.now() - arrival) < 60


@pytest.mark.usefixtures("clean_faults")
def test_a_repeated_renewal_whose_first_answer_was_lost_fails_its_condition_though_it_was_applied(
    served, dynamodb, table
):
    dynamodb.put_item(TableName=table, Item={"id": {"S": "lease"}, "counter": {"N": "1"}})
    retrying = served.client("dynamodb", config=Config(retries={"total_max_attempts": 2, "mode": "standard"}))
    served.inject("lost", service="dynamodb", operation="UpdateItem", resource=table, count=1)
    with refuses("ConditionalCheckFailedException"):
        retrying.update_item(
            TableName=table,
            Key={"id": {"S": "lease"}},
            UpdateExpression="SET #c = :next",
            ConditionExpression="#c = :seen",
            ExpressionAttributeNames={"#c": "counter"},
            ExpressionAttributeValues={":seen": {"N": "1"}, ":next": {"N": "2"}},
        )
    item = dynamodb.get_item(TableName=table, Key={"id": {"S": "lease"}})["Item"]
    assert item["counter"] == {"N": "2"}
    assert [(fault["seen"], fault["taken"]) for fault in served.faults()] == [(1, 1)]


@pytest.mark.usefixtures("clean_faults")
def test_throttling_has_each_services_own_error_code(served, name):
    once = Config(retries={"total_max_attempts": 1})
    served.inject("throttle")
    calls = {
        "ProvisionedThroughputExceededException": [
            lambda: put(served.client("kinesis", config=once), stream=name),
            lambda: served.client("dynamodb", config=once).scan(TableName=name),
        ],
        "LimitExceededException": [
            lambda: served.client("kinesis", config=once).list_shards(StreamName=name)
        ],
        "SlowDown": [lambda: served.client("s3", config=once).list_objects_v2(Bucket=name)],
    }
    for code, asked in calls.items():
        for call in asked:
            with pytest.raises(ClientError) as raised:
                call()
            assert raised.value.response["Error"]["Code"] == code


@pytest.mark.usefixtures("clean_faults")
def test_a_delayed_answer_comes_later(served, kinesis, name):
    a_stream(kinesis, name=name)
    served.inject("delay", operation="PutRecord", seconds=0.05, count=1)
    put(kinesis, b"late", stream=name)
    assert data_of(a_page(kinesis, stream=name)["Records"]) == [b"late"]
    assert served.faults()[0]["taken"] == 1


def test_2000_shards_are_listed_over_http(kinesis, name):
    a_stream(kinesis, 2000, name=name)
    listed = shards_of(kinesis, name)
    assert [int(shard["ShardId"][-12:]) for shard in listed] == list(range(2000))


def test_large_records_are_put_and_read_over_http(kinesis, name):
    a_stream(kinesis, name=name, MaxRecordSizeInKiB=10240)
    data = os.urandom(10 * 1024 * 1024 - 3)
    put(kinesis, data, key="key", stream=name)
    assert a_page(kinesis, stream=name)["Records"][0]["Data"] == data


def test_a_region_is_taken_from_the_signature(served, kinesis, name):
    a_stream(kinesis, name=name)
    elsewhere = served.client("kinesis", region="eu-west-1")
    with refuses("ResourceNotFoundException"):
        elsewhere.describe_stream_summary(StreamName=name)
    a_stream(elsewhere, name=name)
    summary = elsewhere.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    assert summary["StreamARN"] == f"arn:aws:kinesis:eu-west-1:123456789012:stream/{name}"


def test_an_s3_object_can_be_read_completely_in_part_and_by_head(s3, bucket):
    body, key = os.urandom(9_000_000), "lake/data/ü =1.parquet"
    s3.put_object(Bucket=bucket, Key=key, Body=body, Metadata={"my_key": "v"})
    head = s3.head_object(Bucket=bucket, Key=key)
    part = s3.get_object(Bucket=bucket, Key=key, Range="bytes=100-199")["Body"].read()
    assert (head["ContentLength"], head["Metadata"]) == (len(body), {"my_key": "v"})
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    assert part == body[100:200]
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    s3.delete_object(Bucket=bucket, Key=key)
    with pytest.raises(ClientError, match="404"):
        s3.head_object(Bucket=bucket, Key=key)


def a_request(served, method, path, body=b"", **headers):
    connection = HTTPConnection(served.endpoint.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


@pytest.mark.parametrize(("target", "body", "code"), [
    ("Kinesis_20131202.Fly", b"{}", "UnknownOperationException"),
    ("Kinesis_20131202.ListStreams", b"{", "SerializationException"),
    ("Kinesis_20131202.DescribeStream", b'{"StreamName": "unknown"}', "ResourceNotFoundException"),
    ("Kinesis_20131202.GetRecords", b'{"ShardIterator": "x"}', "InvalidArgumentException"),
])  # fmt: skip
def test_an_error_is_json_with_its_type_in_body_and_header(served, target, body, code):
    status, answer, headers = a_request(served, "POST", "/", body, **{"X-Amz-Target": target})
    assert (status, headers["x-amzn-ErrorType"]) == (400, code)
    assert f'"__type":"{code}"'.encode() in answer


CBOR = "application/x-amz-cbor-1.1"


def test_a_client_that_speaks_cbor_is_answered_in_cbor(served):
    headers = {"X-Amz-Target": "Kinesis_20131202.ListStreams", "Content-Type": CBOR}
    status, answer, found = a_request(
        served, "POST", "/", b"\xbf\xff", **headers
    )  # the first byte of a map as the Java SDK writes it
    assert (status, found["Content-Type"]) == (200, CBOR)
    assert "StreamNames" in decoded(answer)


@pytest.mark.parametrize("body", [encoded({"StreamName": "unknown"}), b"\x9f" * 1000])
def test_an_error_for_a_client_that_speaks_cbor_is_in_cbor(served, body):
    headers = {"X-Amz-Target": "Kinesis_20131202.DescribeStream", "Content-Type": CBOR}
    status, answer, found = a_request(served, "POST", "/", body, **headers)
    assert (status, found["Content-Type"]) == (400, CBOR)
    assert decoded(answer)["__type"] == found["x-amzn-ErrorType"]
    assert decoded(answer)["message"]


def test_an_injected_error_is_in_the_clients_format(served):
    served.inject(
        "throttle", service="kinesis", operation="DescribeStream", resource="no-such-stream", count=1
    )
    headers = {"X-Amz-Target": "Kinesis_20131202.DescribeStream", "Content-Type": CBOR}
    status, answer, _ = a_request(served, "POST", "/", encoded({"StreamName": "no-such-stream"}), **headers)
    served.clear_faults()
    assert (status, decoded(answer)["__type"]) == (400, "LimitExceededException")


@pytest.mark.parametrize(("method", "path", "body", "status"), [
    ("GET", "health", b"", 200),
    ("GET", "nothing", b"", 404),
    ("POST", "clock", b"{", 400),
    ("POST", "clock", b'{"advance": 1}', 400),
    ("POST", "clock", b'{"advance_seconds": "1"}', 400),
    ("POST", "faults", b'{"kind": "thunder"}', 400),
    ("POST", "faults", b"[7]", 400),
    ("POST", "faults", b'{"kind": "lost", "count": "many"}', 400),
    ("POST", "faults", b"", 400),
])  # fmt: skip
def test_the_control_endpoints_answer_wrong_requests_with_the_reason(served, method, path, body, status):
    before = served.faults(), round(served.now() / 1000)
    answered = a_request(served, method, f"/_headrace/{path}", body)
    assert answered[0] == status
    assert (served.faults(), round(served.now() / 1000)) == before


def test_bytes_that_are_no_http_end_only_their_own_connection(served, kinesis, name):
    port = int(served.endpoint.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"hello\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    a_stream(kinesis, name=name)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in answer
    assert ids_of(kinesis, name) == [0]
