"""Each operation answers alike in JSON and in CBOR."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.encoding.cbor import Tagged, decoded, encoded
from headrace.pipeline.local.clock import MovableClock
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.kinesis.kinesis import OPERATIONS, Kinesis
from headrace.pipeline.local.kinesis.region import Options
from headrace.pipeline.local.wires import CBOR, JSON, wire_of
from tests.local.test_cbor import VALUES

ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
ORDERS = {"StreamName": "orders"}
MIDDLE_HASH_KEY = str(1 << 127)


def shard(index):
    return f"shardId-{index:012d}"


def record(data, key="k"):
    return {"Data": base64.b64encode(data).decode(), "PartitionKey": key}


def last_iterator(answers):
    return answers[-1]["ShardIterator"]


# A client's requests in JSON, each made from the answers so far.
STORY = [
    ("CreateStream", lambda _: {**ORDERS, "ShardCount": 1, "Tags": {"team": "a", "é": "b"}}),
    ("DescribeStream", lambda _: ORDERS),
    ("DescribeStreamSummary", lambda _: ORDERS),
    ("DescribeLimits", lambda _: {}),
    ("ListStreams", lambda _: {"Limit": 10}),
    ("ListTagsForStream", lambda _: ORDERS),
    ("AddTagsToStream", lambda _: {**ORDERS, "Tags": {"more": ""}}),
    ("RemoveTagsFromStream", lambda _: {**ORDERS, "TagKeys": ["team"]}),
    ("IncreaseStreamRetentionPeriod", lambda _: {**ORDERS, "RetentionPeriodHours": 48}),
    ("DecreaseStreamRetentionPeriod", lambda _: {**ORDERS, "RetentionPeriodHours": 24}),
    ("UpdateMaxRecordSize", lambda _: {"StreamARN": ARN, "MaxRecordSizeInKiB": 2048}),
    ("UpdateStreamMode", lambda _: {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "PROVISIONED"}}),
    ("TagResource", lambda _: {"ResourceARN": ARN, "Tags": {"owner": "b"}}),
    ("ListTagsForResource", lambda _: {"ResourceARN": ARN}),
    ("UntagResource", lambda _: {"ResourceARN": ARN, "TagKeys": ["owner"]}),
    ("EnableEnhancedMonitoring", lambda _: {**ORDERS, "ShardLevelMetrics": ["ALL"]}),
    ("DisableEnhancedMonitoring", lambda _: {**ORDERS, "ShardLevelMetrics": ["IncomingBytes"]}),
    ("PutResourcePolicy", lambda _: {"ResourceARN": ARN, "Policy": "{}"}),
    ("GetResourcePolicy", lambda _: {"ResourceARN": ARN}),
    ("DeleteResourcePolicy", lambda _: {"ResourceARN": ARN}),
    ("StartStreamEncryption", lambda _: {**ORDERS, "EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}),
    ("PutRecord", lambda _: {**ORDERS, **record(b"encrypted")}),
    ("StopStreamEncryption", lambda _: {**ORDERS, "EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}),
    ("PutRecord", lambda _: {**ORDERS, **record(b"\x00\xff data")}),
    ("PutRecords", lambda _: {**ORDERS, "Records": [record(bytes(size)) for size in (0, 23, 24, 300, 70_000)]}),
    ("GetShardIterator", lambda _: {**ORDERS, "ShardId": shard(0), "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1.5}),
    ("GetRecords", lambda answers: {"ShardIterator": last_iterator(answers)}),
    ("SplitShard", lambda _: {**ORDERS, "ShardToSplit": shard(0), "NewStartingHashKey": MIDDLE_HASH_KEY}),
    ("GetShardIterator", lambda _: {**ORDERS, "ShardId": shard(0), "ShardIteratorType": "LATEST"}),
    ("GetRecords", lambda answers: {"ShardIterator": last_iterator(answers)}),
    ("ListShards", lambda _: {**ORDERS, "ShardFilter": {"Type": "FROM_TIMESTAMP", "Timestamp": 1_600_000_000.25}}),
    ("MergeShards", lambda _: {**ORDERS, "ShardToMerge": shard(1), "AdjacentShardToMerge": shard(2)}),
    ("UpdateShardCount", lambda _: {**ORDERS, "TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"}),
    ("ListShards", lambda _: ORDERS),
    ("UpdateAccountSettings", lambda _: {"MinimumThroughputBillingCommitment": {"Status": "ENABLED"}}),
    ("DescribeAccountSettings", lambda _: {}),
    ("UpdateStreamMode", lambda _: {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}),
    ("UpdateStreamWarmThroughput", lambda _: {**ORDERS, "WarmThroughputMiBps": 4}),
    ("UpdateStreamRecordDistributionStrategy", lambda _: {"StreamARN": ARN, "RecordDistributionStrategy": "AUTO"}),
    ("DescribeStreamSummary", lambda _: ORDERS),
    ("RegisterStreamConsumer", lambda _: {"StreamARN": ARN, "ConsumerName": "headrace"}),
    ("DescribeStreamConsumer", lambda _: {"StreamARN": ARN, "ConsumerName": "headrace"}),
    ("ListStreamConsumers", lambda _: {"StreamARN": ARN}),
    ("DeregisterStreamConsumer", lambda _: {"StreamARN": ARN, "ConsumerName": "headrace"}),
    ("DeleteStream", lambda _: {**ORDERS, "EnforceConsumerDeletion": True}),
]  # fmt: skip


def a_kinesis():
    clock = MovableClock()
    clock.offset = 1_700_000_000.123 - clock()
    return Kinesis(clock, Random(0), Options(transition=0))


def spelled_as_java(field, value):
    """A request in CBOR as the Java SDK sends it: blobs as bytes, times as milliseconds under tag 1."""
    if isinstance(value, dict):
        return {key: spelled_as_java(key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [spelled_as_java(field, item) for item in value]
    if field == "Data":
        return base64.b64decode(value)
    return Tagged(1, round(value * 1000)) if field == "Timestamp" else value


def as_json(field, value):
    """An answer in CBOR, converted to JSON."""
    match value:
        case dict():
            return {key: as_json(key, item) for key, item in value.items()}
        case list():
            return [as_json(field, item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case Tagged(1, millis):
            return millis / 1000
        case _:
            return value


def test_the_list_of_requests_has_every_operation():
    assert {operation for operation, _ in STORY} == set(OPERATIONS)


def test_every_operation_answers_alike_in_json_and_cbor():
    json_side, cbor_side = a_kinesis(), a_kinesis()
    frozen = json_side.clock()
    json_side.clock = cbor_side.clock = lambda: frozen
    answers: list[dict[str, Any]] = []
    for operation, asked in STORY:
        request = asked(answers)
        answers.append(json_side.call(operation, request))
        body = cbor_side.answer(operation, encoded(spelled_as_java("", request)), wire=CBOR)
        assert as_json("", decoded(body) if body else {}) == answers[-1], operation


def test_timestamps_in_cbor_are_whole_milliseconds_under_tag_1_and_blobs_are_bytes():
    kinesis = a_kinesis()
    kinesis.call("CreateStream", {**ORDERS, "ShardCount": 1})
    kinesis.call("PutRecord", {**ORDERS, **record(b"\x00\xff")})
    token = kinesis.call(
        "GetShardIterator", {**ORDERS, "ShardId": shard(0), "ShardIteratorType": "TRIM_HORIZON"}
    )
    (found,) = decoded(kinesis.answer("GetRecords", encoded(token), wire=CBOR))["Records"]
    assert found["Data"] == b"\x00\xff"
    assert found["ApproximateArrivalTimestamp"].tag == 1
    assert found["ApproximateArrivalTimestamp"].value // 1000 == 1_700_000_000
    described = decoded(kinesis.answer("DescribeStreamSummary", encoded(ORDERS), wire=CBOR))
    created = described["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    assert (created.tag, created.value // 1000) == (1, 1_700_000_000)


def test_an_empty_body_counts_as_a_request_without_fields():
    assert decoded(a_kinesis().answer("ListStreams", b"", wire=CBOR))["StreamNames"] == []


@pytest.mark.parametrize(("operation", "request_", "why"), [
    ("PutRecord", {**ORDERS, "Data": "eA==", "PartitionKey": "k"}, "Blob"),
    ("PutRecord", {**ORDERS, "Data": b"x", "PartitionKey": b"k"}, "PartitionKey"),
    ("DescribeStream", {"StreamName": Tagged(1, 5)}, "StreamName"),
    ("GetShardIterator", {"Timestamp": Tagged(2, 5)}, "Timestamp"),
    ("GetShardIterator", {"Timestamp": float("nan")}, "Timestamp"),
    ("CreateStream", {**ORDERS, "ShardCount": float("inf")}, "ShardCount"),
    ("DescribeStream", ["orders"], "no CBOR map"),
])  # fmt: skip
def test_a_value_of_the_wrong_kind_is_refused(operation, request_, why):
    with pytest.raises(AwsError, match=why) as refused:
        a_kinesis().answer(operation, encoded(request_), wire=CBOR)
    assert refused.value.code == "SerializationException"


def test_bytes_that_are_no_cbor_are_refused():
    with pytest.raises(AwsError, match="no CBOR") as refused:
        a_kinesis().answer("ListStreams", b"{}", wire=CBOR)
    assert refused.value.code == "SerializationException"


@given(st.sampled_from(sorted(OPERATIONS)), st.dictionaries(
    st.sampled_from(["StreamName", "Data", "Timestamp", "Limit", "Records", "ShardFilter", "Tags", "ShardCount"]), VALUES
) | VALUES)  # fmt: skip
def test_no_request_in_cbor_causes_an_internal_error(operation, request_):
    try:
        answer = a_kinesis().answer(operation, encoded(request_), wire=CBOR)
    except AwsError as refused:
        assert refused.status == 400  # noqa: PT017 - some inputs are read, others refused
    else:
        assert answer == b"" or isinstance(decoded(answer), dict)


def test_the_content_type_decides_between_json_and_cbor():
    assert wire_of("application/x-amz-cbor-1.1") is CBOR
    assert wire_of("application/x-amz-json-1.1") is JSON
    assert wire_of(None) is JSON


def test_the_fault_plan_matches_requests_in_cbor_too():
    kinesis = a_kinesis()
    kinesis.call("CreateStream", {**ORDERS, "ShardCount": 1})
    token = kinesis.call("GetShardIterator", {**ORDERS, "ShardId": shard(0), "ShardIteratorType": "LATEST"})
    call = kinesis.call_of("GetRecords", encoded(token), CBOR)
    assert (call.resource, call.shard) == ("orders", shard(0))
    assert kinesis.call_of("GetRecords", b"\xff", CBOR).resource == ""
