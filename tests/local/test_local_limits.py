"""Quotas that depend on time. They are enforced only with the option throttle."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.local.inprocess import InProcessKinesis
from tests.local.builders import MIB, STREAM, a_page, a_stream, an_iterator, put, refuses

EXCEEDED = "ProvisionedThroughputExceededException"


@pytest.fixture
def strict():
    return InProcessKinesis(throttle=True)


@pytest.fixture
def client(strict):
    client = strict.client()
    a_stream(client, 2)
    return client


def test_without_throttle_no_rate_is_refused():
    client: Any = InProcessKinesis().client()
    a_stream(client)
    records = [{"Data": b"x" * 3000, "PartitionKey": "k"}] * 500
    answers = [client.put_records(StreamName=STREAM, Records=records) for _ in range(3)]
    pages = [a_page(client) for _ in range(20)]
    assert [answer["FailedRecordCount"] for answer in answers] == [0, 0, 0]
    assert [len(page["Records"]) for page in pages] == [1500] * 20


def test_a_shard_can_be_read_5_times_a_second(strict, client):
    tokens = [an_iterator(client, shard) for shard in (0, 1)]
    for _ in range(5):
        client.get_records(ShardIterator=tokens[0])
    with refuses(EXCEEDED, "Rate exceeded for shard shardId-000000000000 in stream orders"):
        client.get_records(ShardIterator=tokens[0])
    client.get_records(ShardIterator=tokens[1])
    strict.clock.advance(0.2)
    assert client.get_records(ShardIterator=tokens[0])["Records"] == []


def test_after_a_page_of_10_mib_reads_are_refused_for_5_seconds(strict, client):
    for _ in range(10):
        put(client, b"x" * (MIB - 3), key="key", ExplicitHashKey="0")
        strict.clock.advance(1)
    token = an_iterator(client)
    assert len(client.get_records(ShardIterator=token)["Records"]) == 10
    for seconds in (0, 4.9):
        strict.clock.advance(seconds)
        with refuses(EXCEEDED):
            client.get_records(ShardIterator=token)
    strict.clock.advance(0.2)
    assert len(client.get_records(ShardIterator=token)["Records"]) == 10


def test_a_shard_takes_1000_records_a_second_and_put_records_fails_in_part(strict, client):
    low = [{"Data": b"low", "PartitionKey": "k", "ExplicitHashKey": "0"}] * 400
    high = [{"Data": b"high", "PartitionKey": "k", "ExplicitHashKey": str(2**127)}] * 100
    answers = [client.put_records(StreamName=STREAM, Records=low + high) for _ in range(3)]
    assert [answer["FailedRecordCount"] for answer in answers] == [0, 0, 200]
    failed = [item for item in answers[2]["Records"] if "ErrorCode" in item]
    assert failed[0] == {
        "ErrorCode": EXCEEDED,
        "ErrorMessage": "Rate exceeded for shard shardId-000000000000 in stream orders under account 123456789012.",
    }
    assert (len(a_page(client, 0)["Records"]), len(a_page(client, 1)["Records"])) == (1000, 300)
    with refuses(EXCEEDED):
        put(client, ExplicitHashKey="0")
    strict.clock.advance(1)
    assert put(client, ExplicitHashKey="0")["ShardId"] == "shardId-000000000000"


def test_a_shard_takes_1_mib_a_second(strict, client):
    put(client, b"x" * (MIB - 3), key="key", ExplicitHashKey="0")
    with refuses(EXCEEDED):
        put(client, b"x" * 1000, ExplicitHashKey="0")
    strict.clock.advance(0.5)
    assert put(client, b"x" * 1000, ExplicitHashKey="0")["ShardId"] == "shardId-000000000000"


def test_a_record_larger_than_a_seconds_quota_is_taken_if_the_whole_quota_is_free():
    strict = InProcessKinesis(throttle=True)
    client = strict.client()
    a_stream(client, MaxRecordSizeInKiB=10240)
    put(client, b"x" * (5 * MIB))
    strict.clock.advance(4)
    with refuses(EXCEEDED):
        put(client)
    strict.clock.advance(2)
    assert put(client)["ShardId"] == "shardId-000000000000"


def test_list_shards_can_be_called_1000_times_a_second_for_each_stream(strict, client):
    a_stream(client, name="other")
    for _ in range(1000):
        strict.kinesis.call("ListShards", {"StreamName": STREAM})
    with refuses("LimitExceededException", "ListShards"):
        client.list_shards(StreamName=STREAM)
    assert len(client.list_shards(StreamName="other")["Shards"]) == 1
    strict.clock.advance(0.01)
    assert len(client.list_shards(StreamName=STREAM)["Shards"]) == 2


def test_a_shard_gives_5_iterators_a_second(strict, client):
    for _ in range(5):
        an_iterator(client)
    with refuses(EXCEEDED):
        an_iterator(client)
    strict.clock.advance(1)
    assert an_iterator(client, 0)


@pytest.mark.parametrize(("call", "rate"), [("describe_stream", 10), ("describe_stream_summary", 20)])
def test_describe_calls_have_their_rate_limits(client, call, rate):
    answers = [getattr(client, call)(StreamName=STREAM) for _ in range(rate)]
    with refuses("LimitExceededException"):
        getattr(client, call)(StreamName=STREAM)
    assert len(answers) == rate


def test_five_streams_at_a_time_may_be_creating():
    strict = InProcessKinesis(throttle=True, transition=60)
    client = strict.client()
    for n in range(5):
        a_stream(client, name=f"s{n}")
    strict.clock.advance(1)
    with refuses("LimitExceededException", "CREATING"):
        a_stream(client, name="s5")
    strict.clock.advance(60)
    assert a_stream(client, name="s5") == "s5"
