"""Encryption, tags and policies of streams and consumers, metrics of shards."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.local.inprocess import InProcessKinesis
from tests.local.builders import STREAM, a_page, a_stream, put, refuses

ARN = f"arn:aws:kinesis:us-east-1:123456789012:stream/{STREAM}"
KEY = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}


def summary(client: Any) -> dict[str, Any]:
    described: dict[str, Any] = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    return described


@pytest.fixture
def arns(client: Any) -> list[str]:
    """A stream's ARN, and that of its consumer."""
    a_stream(client)
    consumer = client.register_stream_consumer(StreamARN=ARN, ConsumerName="c")["Consumer"]
    return [ARN, consumer["ConsumerARN"]]


def test_records_are_encrypted_from_the_end_of_updating_to_the_end_of_another_one():
    slow = InProcessKinesis(transition=10)
    client: Any = slow.client()
    a_stream(client)
    slow.clock.advance(10)
    client.start_stream_encryption(StreamName=STREAM, **KEY)
    answers = [put(client, b"before")]
    slow.clock.advance(10)
    described = summary(client)
    answers.append(put(client, b"encrypted"))
    client.stop_stream_encryption(StreamName=STREAM, **KEY)
    answers.append(put(client, b"still"))
    slow.clock.advance(10)
    answers.append(put(client, b"after"))

    assert [answer["EncryptionType"] for answer in answers] == ["NONE", "KMS", "KMS", "NONE"]
    assert [record.get("EncryptionType") for record in a_page(client)["Records"]] == [
        None,
        "KMS",
        "KMS",
        None,
    ]
    assert (described["EncryptionType"], described["KeyId"]) == ("KMS", "alias/aws/kinesis")
    assert summary(client)["EncryptionType"] == "NONE"


def test_encryption_can_be_changed_25_times_a_day():
    strict = InProcessKinesis(throttle=True)
    client: Any = strict.client()
    a_stream(client)
    for _ in range(25):
        client.start_stream_encryption(StreamName=STREAM, **KEY)
    with refuses("LimitExceededException", "25 times"):
        client.stop_stream_encryption(StreamName=STREAM, **KEY)


def test_tags_of_streams_and_consumers_are_set_listed_and_removed(client: Any, arns: list[str]):
    for arn in arns:
        client.tag_resource(ResourceARN=arn, Tags={"b": "2", "a": "1"})
        client.untag_resource(ResourceARN=arn, TagKeys=["b"])

    assert [client.list_tags_for_resource(ResourceARN=arn)["Tags"] for arn in arns] == [
        [{"Key": "a", "Value": "1"}]
    ] * 2
    assert client.list_tags_for_stream(StreamName=STREAM)["Tags"] == [{"Key": "a", "Value": "1"}]


def test_a_consumer_can_be_registered_with_tags(client: Any):
    a_stream(client)
    made = client.register_stream_consumer(StreamARN=ARN, ConsumerName="c", Tags={"team": "data"})

    listed = client.list_tags_for_resource(ResourceARN=made["Consumer"]["ConsumerARN"])
    assert listed["Tags"] == [{"Key": "team", "Value": "data"}]


def test_a_policy_is_kept_until_it_is_deleted(client: Any, arns: list[str]):
    for arn in arns:
        none = client.get_resource_policy(ResourceARN=arn)["Policy"]
        client.put_resource_policy(ResourceARN=arn, Policy='{"Statement": []}')
        kept = client.get_resource_policy(ResourceARN=arn)["Policy"]
        client.delete_resource_policy(ResourceARN=arn)
        assert (none, kept) == ("{}", '{"Statement": []}')
        with refuses("ResourceNotFoundException"):
            client.delete_resource_policy(ResourceARN=arn)


@pytest.mark.parametrize("policy", ["[]", "{", "7"])
def test_a_policy_that_is_no_object_is_refused(client: Any, arns: list[str], policy: str):
    with refuses("InvalidArgumentException"):
        client.put_resource_policy(ResourceARN=arns[0], Policy=policy)


def test_a_resource_that_isnt_there_is_not_found(client: Any, arns: list[str]):
    for arn in (f"{ARN}-other", f"{arns[1]}0"):
        with refuses("ResourceNotFoundException"):
            client.list_tags_for_resource(ResourceARN=arn)


def test_metrics_of_shards_are_switched_on_and_off(client: Any):
    a_stream(client)
    on = client.enable_enhanced_monitoring(
        StreamName=STREAM, ShardLevelMetrics=["OutgoingBytes", "IncomingBytes"]
    )
    off = client.disable_enhanced_monitoring(StreamName=STREAM, ShardLevelMetrics=["IncomingBytes"])
    monitored = summary(client)["EnhancedMonitoring"]
    client.enable_enhanced_monitoring(StreamName=STREAM, ShardLevelMetrics=["ALL"])

    assert on["DesiredShardLevelMetrics"] == ["IncomingBytes", "OutgoingBytes"]
    assert (off["CurrentShardLevelMetrics"], off["DesiredShardLevelMetrics"]) == (
        ["IncomingBytes", "OutgoingBytes"],
        ["OutgoingBytes"],
    )
    assert monitored == [{"ShardLevelMetrics": ["OutgoingBytes"]}]
    assert len(summary(client)["EnhancedMonitoring"][0]["ShardLevelMetrics"]) == 7
