"""The fault plan: which fault happens to which call, and how often."""

from __future__ import annotations

from random import Random

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from headrace.pipeline.local.faults import Call, Fault, FaultPlan
from headrace.pipeline.local.inprocess import InProcessKinesis
from tests.local.builders import (
    STREAM,
    a_page,
    a_stream,
    an_iterator,
    data_of,
    ids_of,
    put,
    refuses,
    shard_id,
)

KINDS = {"throttle"}


def a_plan(*faults):
    plan = FaultPlan(Random(0))
    for fault in faults:
        plan.add(fault)
    return plan


def a_call(operation="GetRecords", service="kinesis", resource=STREAM, shard="shardId-000000000000"):
    return Call(service=service, operation=operation, resource=resource, shard=shard)


@pytest.mark.parametrize(("fields", "struck"), [
    ({}, True),
    ({"operation": "GetRecords"}, True),
    ({"operation": "PutRecords"}, False),
    ({"service": "dynamodb"}, False),
    ({"resource": STREAM}, True),
    ({"resource": "ord"}, False),
    ({"shard": shard_id(1)}, False),
    ({"operation": "GetRecords", "resource": STREAM, "shard": shard_id(0)}, True),
])  # fmt: skip
def test_a_fault_happens_to_calls_that_match_all_its_fields(fields, struck):
    assert (a_plan(Fault(kind="throttle", **fields)).draw(KINDS, a_call()) is not None) == struck


def test_for_s3_the_resource_of_a_fault_is_the_beginning_of_the_path():
    plan = a_plan(Fault(kind="throttle", service="s3", operation="PUT", resource="/lake/meta"))
    paths = ("/lake/metadata/1.json", "/lake/data/1.parquet")
    drawn = [plan.draw(KINDS, a_call("PUT", "s3", path, "")) is not None for path in paths]
    assert drawn == [True, False]


def test_skip_and_count_limit_how_often_a_fault_happens():
    plan = a_plan(Fault(kind="throttle", skip=2, count=3))
    assert [plan.draw(KINDS, a_call()) is not None for _ in range(7)] == [False] * 2 + [True] * 3 + [
        False
    ] * 2
    assert [(item["seen"], item["taken"]) for item in plan.described()] == [(5, 3)]


def test_the_probability_of_a_fault_is_drawn_from_the_seed():
    draws = [
        [plan.draw(KINDS, a_call()) is not None for _ in range(1000)]
        for plan in (a_plan(Fault(kind="throttle", probability=0.3)) for _ in range(2))
    ]
    assert draws[0] == draws[1]
    assert 250 < sum(draws[0]) < 350


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "thunder"},
        {"kind": "lost", "operations": "PutRecord"},
        {"operation": "x"},
        {"kind": "lost", "probability": 2},
        {"kind": "delay", "seconds": -1},
        {"kind": "lost", "count": True},
    ],
)
def test_a_misspelled_fault_is_refused(given):
    with pytest.raises((ValueError, TypeError), match="fault"):
        Fault.from_json(given)


def test_a_throttled_call_changes_nothing(local, client):
    a_stream(client)
    local.inject("throttle", count=1, operation="PutRecord")
    with refuses("ProvisionedThroughputExceededException"):
        put(client, b"1")
    put(client, b"2")
    assert data_of(a_page(client)["Records"]) == [b"2"]


def test_throttled_listing_is_a_limit_exceeded(local, client):
    a_stream(client)
    local.inject("throttle", count=1, operation="ListShards")
    with refuses("LimitExceededException"):
        client.list_shards(StreamName=STREAM)
    assert ids_of(client) == [0]


def test_an_error_has_the_code_and_status_that_was_asked_for(local, client):
    a_stream(client)
    local.inject("error", operation="GetRecords", code="InternalFailure", status=500)
    with pytest.raises(ClientError) as raised:
        a_page(client)
    assert raised.value.response["Error"]["Code"] == "InternalFailure"
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_a_call_whose_answer_is_lost_is_applied(local, client):
    a_stream(client)
    local.inject("lost", operation="PutRecord", count=1)
    with pytest.raises(ConnectionClosedError):
        put(client, b"lost")
    assert data_of(a_page(client)["Records"]) == [b"lost"]


def test_a_client_that_retries_a_lost_put_doubles_the_record():
    local = InProcessKinesis()
    client = local.client(attempts=2)
    a_stream(client)
    local.inject("lost", operation="PutRecord", count=1)
    put(client, b"twice")
    assert data_of(a_page(client)["Records"]) == [b"twice", b"twice"]


def test_a_delay_is_measured_by_the_stand_ins_clock(local, client):
    a_stream(client)
    before = local.clock()
    local.inject("delay", operation="PutRecord", seconds=7)
    put(client)
    assert local.clock() - before == 7


def test_a_fault_may_be_limited_to_one_shard(local, client):
    a_stream(client, 2)
    tokens = [an_iterator(client, shard) for shard in (0, 1)]
    local.inject("throttle", operation="GetRecords", shard=shard_id(1))
    assert client.get_records(ShardIterator=tokens[0])["Records"] == []
    with refuses("ProvisionedThroughputExceededException"):
        client.get_records(ShardIterator=tokens[1])


def test_the_fault_partial_fails_some_records_of_a_put_and_takes_the_others(local, client):
    a_stream(client, 2)
    local.inject("partial", shard=shard_id(0), count=2)
    sent = [(b"1", "0"), (b"2", "0"), (b"3", "0"), (b"4", str(2**127))]
    records = [{"Data": data, "PartitionKey": "k", "ExplicitHashKey": key} for data, key in sent]
    answer = client.put_records(StreamName=STREAM, Records=records)
    assert answer["FailedRecordCount"] == 2
    assert ["ErrorCode" in item for item in answer["Records"]] == [True, True, False, False]
    assert data_of(a_page(client)["Records"]) == [b"3"]
