"""Bad input is answered with AWS's error, never with an internal error of the stand-in."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.local.clock import MovableClock
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.kinesis.kinesis import OPERATIONS, Kinesis
from headrace.pipeline.local.kinesis.region import Options

RECORD = {"Data": "eA==", "PartitionKey": "k"}
ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
SHARD = {"StreamName": "orders", "ShardId": "shardId-000000000000"}


def a_kinesis():
    kinesis = Kinesis(MovableClock(), Random(0), Options(transition=0))
    kinesis.call("CreateStream", {"StreamName": "orders", "ShardCount": 2})
    return kinesis


CASES = [
    ("Fly", {}, "UnknownOperationException"),
    ("RegisterStreamConsumer", {"StreamARN": ARN, "ConsumerName": "sp ace"}, "ValidationException"),
    ("RegisterStreamConsumer", {"ConsumerName": "c"}, "ValidationException"),
    ("DescribeStreamConsumer", {"StreamARN": ARN, "ConsumerName": "c"}, "ResourceNotFoundException"),
    ("DescribeStreamConsumer", {"ConsumerARN": f"{ARN}/consumer/c:1"}, "ResourceNotFoundException"),
    ("DeregisterStreamConsumer", {"ConsumerARN": ARN}, "InvalidArgumentException"),
    ("ListStreamConsumers", {"StreamARN": ARN, "NextToken": "made up"}, "InvalidArgumentException"),
    ("DescribeStream", {"StreamName": "unknown"}, "ResourceNotFoundException"),
    ("DescribeStream", {"StreamName": "sp ace"}, "ValidationException"),
    ("DescribeStream", {"StreamName": "x" * 129}, "ValidationException"),
    ("DescribeStream", {"StreamName": 7}, "SerializationException"),
    ("DescribeStream", {}, "InvalidArgumentException"),
    ("DescribeStream", {"StreamARN": "orders"}, "InvalidArgumentException"),
    ("DescribeStream", {"StreamARN": ARN.replace("us-east-1", "eu-west-1")}, "ResourceNotFoundException"),
    ("DescribeStream", {"StreamARN": ARN.replace("orders", "unknown")}, "ResourceNotFoundException"),
    ("DescribeStream", {"StreamName": "orders", "Limit": 0}, "ValidationException"),
    ("DescribeStreamSummary", {"StreamId": "x"}, "ResourceNotFoundException"),
    ("CreateStream", {"StreamName": "new"}, "ValidationException"),
    ("CreateStream", {"StreamName": "new", "ShardCount": 0}, "ValidationException"),
    ("CreateStream", {"StreamName": "new", "ShardCount": "2"}, "SerializationException"),
    ("CreateStream", {"StreamName": "new", "ShardCount": True}, "SerializationException"),
    ("CreateStream", {"StreamName": "new", "ShardCount": 10**9}, "LimitExceededException"),
    (
        "CreateStream",
        {"StreamName": "new", "ShardCount": 1, "MaxRecordSizeInKiB": 1023},
        "ValidationException",
    ),
    (
        "CreateStream",
        {"StreamName": "new", "ShardCount": 1, "Tags": {"é\u0001": "x"}},
        "InvalidArgumentException",
    ),
    ("CreateStream", {"ShardCount": 1}, "ValidationException"),
    ("PutRecord", {"StreamName": "orders", "Data": "eA=="}, "ValidationException"),
    ("PutRecord", {"StreamName": "orders", "PartitionKey": "k"}, "ValidationException"),
    ("PutRecord", {"StreamName": "orders", "Data": "eA==", "PartitionKey": ""}, "ValidationException"),
    ("PutRecord", {"StreamName": "orders", "Data": "e", "PartitionKey": "k"}, "SerializationException"),
    ("PutRecord", {"StreamName": "orders", "Data": "é===", "PartitionKey": "k"}, "SerializationException"),
    ("PutRecord", {"StreamName": "orders", "Data": 7, "PartitionKey": "k"}, "SerializationException"),
    (
        "PutRecord",
        {"StreamName": "orders", **RECORD, "SequenceNumberForOrdering": "x"},
        "ValidationException",
    ),
    ("PutRecord", {"StreamName": "unknown", **RECORD}, "ResourceNotFoundException"),
    ("PutRecords", {"StreamName": "orders", "Records": []}, "ValidationException"),
    ("PutRecords", {"StreamName": "orders", "Records": {}}, "SerializationException"),
    ("PutRecords", {"StreamName": "orders", "Records": [7]}, "SerializationException"),
    ("PutRecords", {"StreamName": "orders"}, "ValidationException"),
    ("PutRecords", {"StreamName": "orders", "Records": [RECORD] * 501}, "ValidationException"),
    ("GetShardIterator", {**SHARD}, "ValidationException"),
    ("GetShardIterator", {**SHARD, "ShardIteratorType": "SOON"}, "ValidationException"),
    (
        "GetShardIterator",
        {**SHARD, "ShardIteratorType": "LATEST", "ShardId": "7"},
        "ResourceNotFoundException",
    ),
    (
        "GetShardIterator",
        {**SHARD, "ShardIteratorType": "LATEST", "ShardId": "shardId-²"},
        "ValidationException",
    ),
    (
        "GetShardIterator",
        {**SHARD, "ShardIteratorType": "LATEST", "ShardId": "shardId-9"},
        "ResourceNotFoundException",
    ),
    (
        "GetShardIterator",
        {**SHARD, "ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "007"},
        "ValidationException",
    ),
    (
        "GetShardIterator",
        {**SHARD, "ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "7"},
        "InvalidArgumentException",
    ),
    (
        "GetShardIterator",
        {**SHARD, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": "now"},
        "SerializationException",
    ),
    *(
        (
            "GetShardIterator",
            {**SHARD, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": far},
            "SerializationException",
        )
        for far in (1e308, -1e308, 1e12)
    ),
    ("GetRecords", {}, "ValidationException"),
    ("GetRecords", {"ShardIterator": "x"}, "InvalidArgumentException"),
    ("GetRecords", {"ShardIterator": ""}, "InvalidArgumentException"),
    ("GetRecords", {"ShardIterator": "x", "Limit": 10_001}, "ValidationException"),
    ("ListShards", {"NextToken": "x"}, "InvalidArgumentException"),
    ("ListShards", {"StreamName": "orders", "ShardFilter": "AT_LATEST"}, "SerializationException"),
    ("ListShards", {"StreamName": "orders", "ShardFilter": {"Type": "ALL"}}, "ValidationException"),
    ("ListShards", {"StreamName": "orders", "ShardFilter": {}}, "ValidationException"),
    ("ListStreams", {"NextToken": "x"}, "InvalidArgumentException"),
    ("SplitShard", {"StreamName": "orders", "ShardToSplit": "shardId-000000000000"}, "ValidationException"),
    (
        "SplitShard",
        {"StreamName": "orders", "ShardToSplit": "shardId-000000000009", "NewStartingHashKey": "7"},
        "ResourceNotFoundException",
    ),
    ("MergeShards", {"StreamName": "orders", "ShardToMerge": "shardId-000000000000"}, "ValidationException"),
    ("IncreaseStreamRetentionPeriod", {"StreamName": "orders"}, "ValidationException"),
    ("UpdateMaxRecordSize", {"StreamARN": ARN, "MaxRecordSizeInKiB": 1023}, "ValidationException"),
    ("UpdateStreamMode", {"StreamARN": ARN}, "ValidationException"),
    ("AddTagsToStream", {"StreamName": "orders", "Tags": {}}, "ValidationException"),
    ("RemoveTagsFromStream", {"StreamName": "orders", "TagKeys": [7]}, "SerializationException"),
]


@pytest.mark.parametrize(("operation", "request_", "code"), CASES)
def test_bad_input_gets_the_error_of_aws(operation, request_, code):
    with pytest.raises(AwsError) as raised:
        a_kinesis().call(operation, request_)
    assert (raised.value.code, raised.value.status) == (code, 400)
    assert raised.value.message


@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b"null", b'"x"', b"\xff\xfe", b'{"StreamName": NaN}'])
def test_a_body_that_is_no_json_object_is_a_serialization_error(body):
    with pytest.raises(AwsError) as raised:
        a_kinesis().answer("DescribeStream", body)
    assert raised.value.code == "SerializationException"


FIELDS = [
    "StreamName", "StreamARN", "StreamId", "ShardCount", "StreamModeDetails", "Tags", "MaxRecordSizeInKiB", "Limit",
    "ExclusiveStartShardId", "ExclusiveStartStreamName", "NextToken", "MaxResults", "StreamCreationTimestamp", "Data",
    "ShardFilter", "PartitionKey", "ExplicitHashKey", "SequenceNumberForOrdering", "Records", "ShardId", "TagKeys",
    "ShardIteratorType", "StartingSequenceNumber", "Timestamp", "ShardIterator", "ShardToSplit", "NewStartingHashKey",
    "ShardToMerge", "AdjacentShardToMerge", "RetentionPeriodHours", "ExclusiveStartTagKey", "ResourceARN", "Policy",
    "KeyId", "EncryptionType", "ShardLevelMetrics", "WarmThroughputMiBps", "MinimumThroughputBillingCommitment",
    "RecordDistributionStrategy",
]  # fmt: skip
PLAUSIBLE = [
    "orders", ARN, "shardId-000000000000", "shardId-000000000001", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER",
    "eA==", "7", str(2**127), 1, 2, 24, 1024, {"Type": "AT_LATEST"}, {"Type": "AT_TIMESTAMP", "Timestamp": 1},
    {"StreamMode": "PROVISIONED"}, {"StreamMode": "ON_DEMAND"}, {"StreamMode": None}, "KMS", "AUTO", ["ALL"],
    {"Status": "ENABLED"}, "{}", [RECORD], ["a"], {"a": "b"},
]  # fmt: skip
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["Type", *FIELDS]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(PLAUSIBLE) | anything, max_size=6),
)
def test_no_request_causes_an_internal_error(operation, request_):
    kinesis = a_kinesis()
    try:
        answered = kinesis.call(operation, {"StreamName": "orders"} | request_)
    except AwsError as error:
        answered = {"error": error.status}
    assert answered.get("error", 400) == 400
