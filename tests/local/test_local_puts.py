"""PutRecord and PutRecords: shards, sizes, and which requests are refused."""

from __future__ import annotations

import hashlib

import pytest

from tests.local.builders import (
    ALL_HASHES,
    MIB,
    STREAM,
    a_page,
    a_stream,
    data_of,
    put,
    read_out,
    refuses,
    shard_id,
)


@pytest.mark.parametrize("key", ["a", "order-17", "é", "日本", "🙂", '"\\\n\x00', "k" * 256])
def test_a_record_goes_to_the_shard_of_its_partition_keys_md5_and_keeps_the_key(client, key):
    a_stream(client, 4)
    expected = int(hashlib.md5(key.encode()).hexdigest(), 16) * 4 // ALL_HASHES
    assert put(client, key=key)["ShardId"] == shard_id(expected)
    assert a_page(client, expected)["Records"][0]["PartitionKey"] == key


@pytest.mark.parametrize(
    ("hash_key", "shard"), [(0, 0), (ALL_HASHES // 2 - 1, 0), (ALL_HASHES // 2, 1), (ALL_HASHES - 1, 1)]
)
def test_an_explicit_hash_key_overrides_the_partition_key(client, hash_key, shard):
    a_stream(client, 2)
    assert put(client, ExplicitHashKey=str(hash_key))["ShardId"] == shard_id(shard)


@pytest.mark.parametrize(("hash_key", "code"), [
    (str(ALL_HASHES), "InvalidArgumentException"),
    ("-1", "ValidationException"),
    ("007", "ValidationException"),
    ("x", "ValidationException"),
    ("9" * 40, "ValidationException"),
])  # fmt: skip
def test_an_explicit_hash_key_out_of_range_is_refused(client, hash_key, code):
    a_stream(client)
    with refuses(code):
        put(client, ExplicitHashKey=hash_key)
    assert a_page(client)["Records"] == []


def test_a_record_is_read_with_its_sequence_number_arrival_and_data(local, client):
    a_stream(client)
    local.clock.advance(0.123)
    answer = put(client, b"\x00\xff", key="k")
    record = a_page(client)["Records"][0]
    arrival = record.pop("ApproximateArrivalTimestamp")
    assert answer["EncryptionType"] == "NONE"
    assert round(arrival.timestamp(), 3) == round(local.clock(), 3)
    assert record == {"SequenceNumber": answer["SequenceNumber"], "Data": b"\x00\xff", "PartitionKey": "k"}


def test_sequence_numbers_grow_and_arrivals_never_go_back_even_if_the_clock_does(local, client):
    a_stream(client)
    for step in (5, -60, 0, 1):
        local.clock.advance(step)
        put(client)
    records = a_page(client)["Records"]
    numbers = [int(record["SequenceNumber"]) for record in records]
    arrivals = [record["ApproximateArrivalTimestamp"] for record in records]
    assert numbers == sorted(set(numbers))
    assert arrivals == sorted(arrivals)
    assert {len(str(number)) for number in numbers} == {56}


def test_put_records_answers_in_the_order_of_the_request(client):
    a_stream(client, 4)
    sent = [{"Data": str(n).encode(), "PartitionKey": str(n)} for n in range(500)]
    answer = client.put_records(StreamName=STREAM, Records=sent)
    number_to_data = {
        record["SequenceNumber"]: record["Data"]
        for shard in range(4)
        for record in a_page(client, shard)["Records"]
    }
    assert answer["FailedRecordCount"] == 0
    assert [number_to_data[item["SequenceNumber"]] for item in answer["Records"]] == [
        item["Data"] for item in sent
    ]


def test_a_record_has_at_most_1_mib_of_data_and_key_together(client):
    a_stream(client)
    put(client, b"x" * (MIB - 3), key="key")
    with refuses("ValidationException"):
        put(client, b"x" * (MIB - 2), key="key")
    assert len(a_page(client)["Records"]) == 1


def test_the_record_limit_can_be_raised_to_10_mib(client):
    a_stream(client)
    arn = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamARN"]
    client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=10240)
    put(client, b"x" * (10 * MIB - 3), key="key")
    put(client, b"small")
    assert [len(data) for data in data_of(a_page(client)["Records"])] == [10 * MIB - 3]
    with refuses("ValidationException"):
        put(client, b"x" * (10 * MIB - 2), key="key")
    with refuses("ValidationException"):
        client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=10241)


def test_put_records_takes_500_records_and_10_mib_and_no_more(client):
    a_stream(client)
    one = {"Data": b"x", "PartitionKey": "k"}
    big = {"Data": b"x" * (MIB - 1), "PartitionKey": "k"}
    with refuses("ValidationException"):
        client.put_records(StreamName=STREAM, Records=[one] * 501)
    with refuses("InvalidArgumentException"):
        client.put_records(StreamName=STREAM, Records=[*[big] * 10, one])
    client.put_records(StreamName=STREAM, Records=[big] * 10)
    assert a_page(client)["Records"][-1]["Data"] == big["Data"]


def test_one_bad_record_refuses_the_whole_request(client):
    a_stream(client)
    good = {"Data": b"x", "PartitionKey": "k"}
    with refuses("ValidationException"):
        client.put_records(StreamName=STREAM, Records=[good, {"Data": b"x", "PartitionKey": "k" * 257}])
    assert a_page(client)["Records"] == []


def test_a_valid_sequence_number_for_ordering_is_accepted(client):
    a_stream(client)
    first = put(client, b"1")["SequenceNumber"]
    put(client, b"2", SequenceNumberForOrdering=first)
    with refuses("InvalidArgumentException"):
        put(client, SequenceNumberForOrdering="17")
    assert data_of(a_page(client)["Records"]) == [b"1", b"2"]


def test_a_record_may_have_no_data(client):
    a_stream(client)
    put(client, b"")
    assert data_of(a_page(client)["Records"]) == [b""]


def test_a_shard_with_many_records_is_read_in_pages_of_any_size(client):
    a_stream(client)
    for start in range(0, 3000, 500):
        records = [{"Data": str(n).encode(), "PartitionKey": "k"} for n in range(start, start + 500)]
        client.put_records(StreamName=STREAM, Records=records)
    token = client.get_shard_iterator(
        StreamName=STREAM, ShardId=shard_id(0), ShardIteratorType="TRIM_HORIZON"
    )
    assert data_of(read_out(client, token["ShardIterator"], 700)) == [str(n).encode() for n in range(3000)]
