"""Streams: creation, states, deletion, names and ARNs, retention, tags."""

from __future__ import annotations

import pytest

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
    shards_of,
    split,
)


@pytest.fixture
def slow() -> InProcessKinesis:
    """A stand-in in which CREATING and DELETING last 10 seconds."""
    return InProcessKinesis(transition=10)


def status(client):
    return client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamStatus"]


def test_a_stream_is_creating_until_the_clock_says_active(slow):
    client = slow.client()
    a_stream(client)
    before = status(client), client.describe_stream(StreamName=STREAM)["StreamDescription"]["Shards"]
    slow.clock.advance(10)
    assert before == ("CREATING", [])
    assert status(client) == "ACTIVE"
    assert ids_of(client) == [0]


def test_while_creating_records_are_refused_and_shards_not_listed(slow):
    client = slow.client()
    a_stream(client)
    with refuses("ResourceNotFoundException"):
        put(client)
    with refuses("ResourceNotFoundException"):
        an_iterator(client)
    with refuses("ResourceInUseException", "CREATING"):
        client.list_shards(StreamName=STREAM)
    with refuses("ResourceInUseException", "CREATING"):
        client.delete_stream(StreamName=STREAM)


def test_a_deleted_stream_is_deleting_and_readable_and_then_unknown(slow):
    client = slow.client()
    a_stream(client)
    slow.clock.advance(10)
    put(client, b"kept")
    token = an_iterator(client)
    client.delete_stream(StreamName=STREAM)
    assert status(client) == "DELETING"
    assert data_of(client.get_records(ShardIterator=token)["Records"]) == [b"kept"]
    slow.clock.advance(10)
    for call in (
        lambda: status(client),
        lambda: put(client),
        lambda: client.get_records(ShardIterator=token),
    ):
        with refuses("ResourceNotFoundException"):
            call()
    assert client.list_streams()["StreamNames"] == []


def test_two_streams_of_one_name_are_refused(client):
    a_stream(client)
    with refuses("ResourceInUseException", "already exists"):
        a_stream(client)


def test_a_recreated_stream_has_the_same_shard_ids_and_refuses_old_iterators(local, client):
    a_stream(client)
    old_number = put(client)["SequenceNumber"]
    token = an_iterator(client)
    client.delete_stream(StreamName=STREAM)
    local.clock.advance(1)
    a_stream(client)
    assert ids_of(client) == [0]
    with refuses("ResourceNotFoundException"):
        client.get_records(ShardIterator=token)
    with refuses("InvalidArgumentException"):
        an_iterator(client, 0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=old_number)


def test_a_stream_summary_has_all_fields(local, client):
    a_stream(client, 3, Tags={"team": "data"})
    summary = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    created = summary.pop("StreamCreationTimestamp")
    assert created.timestamp() == local.clock()
    assert summary == {
        "StreamName": STREAM,
        "StreamARN": "arn:aws:kinesis:us-east-1:123456789012:stream/orders",
        "StreamStatus": "ACTIVE",
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "RetentionPeriodHours": 24,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
        "OpenShardCount": 3,
        "ConsumerCount": 0,
        "MaxRecordSizeInKiB": 1024,
    }


def test_a_stream_can_be_named_by_its_name_its_arn_or_both(client):
    a_stream(client)
    arn = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamARN"]
    by_arn = client.put_record(StreamARN=arn, Data=b"1", PartitionKey="k")
    both = client.put_record(StreamName=STREAM, StreamARN=arn, Data=b"2", PartitionKey="k")
    assert by_arn["ShardId"] == both["ShardId"]
    assert [
        len(client.list_shards(**name)["Shards"]) for name in ({"StreamName": STREAM}, {"StreamARN": arn})
    ] == [1, 1]


def test_name_and_arn_of_different_streams_are_refused(client):
    a_stream(client)
    a_stream(client, name="other")
    arn = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamARN"]
    with refuses("InvalidArgumentException"):
        client.describe_stream(StreamName="other", StreamARN=arn)
    with refuses("InvalidArgumentException"):
        client.describe_stream_summary()
    with refuses("InvalidArgumentException"):
        client.get_records(ShardIterator=an_iterator(client, stream="other"), StreamARN=arn)
    assert client.get_records(ShardIterator=an_iterator(client), StreamARN=arn)["Records"] == []


def test_an_arn_with_another_account_isnt_allowed_and_one_of_another_region_isnt_found(client):
    a_stream(client)
    arn = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamARN"]
    iterator = an_iterator(client)
    for other, code in (
        (arn.replace("123456789012", "999999999999"), "AccessDeniedException"),
        (arn.replace("us-east-1", "eu-west-1"), "ResourceNotFoundException"),
    ):
        with refuses(code):
            client.describe_stream_summary(StreamARN=other)
        with refuses(code):
            client.get_records(ShardIterator=iterator, StreamARN=other)


def test_each_region_has_its_own_streams(local):
    here, there = local.client(), local.client("eu-west-1")
    a_stream(here)
    with refuses("ResourceNotFoundException"):
        put(there)
    a_stream(there)
    arn = there.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamARN"]
    assert arn == "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
    with refuses("ResourceNotFoundException"):
        here.describe_stream(StreamARN=arn)


def test_streams_are_listed_by_name_in_pages_by_token_or_by_name(client):
    for name in ("c", "a", "b"):
        a_stream(client, name=name)
    first = client.list_streams(Limit=2)
    assert (first["StreamNames"], first["HasMoreStreams"]) == (["a", "b"], True)
    assert client.list_streams(NextToken=first["NextToken"])["StreamNames"] == ["c"]
    last = client.list_streams(ExclusiveStartStreamName="b")
    assert (last["StreamNames"], last["HasMoreStreams"]) == (["c"], False)
    assert [item["StreamStatus"] for item in last["StreamSummaries"]] == ["ACTIVE"]


def test_describe_stream_pages_its_shards(client):
    a_stream(client, 250)
    first = client.describe_stream(StreamName=STREAM)["StreamDescription"]
    pages = client.get_paginator("describe_stream").paginate(StreamName=STREAM)
    assert (len(first["Shards"]), first["HasMoreShards"]) == (100, True)
    assert [len(page["StreamDescription"]["Shards"]) for page in pages] == [100, 100, 50]


def test_describe_limits_counts_open_shards(client):
    a_stream(client, 3)
    split(client, 0)
    limits = client.describe_limits()
    assert (limits["OpenShardCount"], limits["OnDemandStreamCount"]) == (4, 0)
    with refuses("LimitExceededException"):
        a_stream(client, limits["ShardLimit"], name="large")


def test_records_are_trimmed_after_the_retention_by_the_stand_ins_clock(local, client):
    a_stream(client)
    put(client, b"old")
    local.clock.advance(3600)
    put(client, b"new")
    token = an_iterator(client)
    local.clock.advance(23 * 3600 + 1)
    local_start = data_of(a_page(client)["Records"])
    assert local_start == [b"new"]
    with refuses("ExpiredIteratorException"):
        client.get_records(ShardIterator=token)


def test_an_iterator_at_a_trimmed_record_goes_on_at_the_trim_horizon(local, client):
    a_stream(client)
    numbers = [put(client, data)["SequenceNumber"] for data in (b"1", b"2")]
    local.clock.advance(24 * 3600 - 60)
    put(client, b"3")
    token = an_iterator(client)
    local.clock.advance(61)
    assert data_of(client.get_records(ShardIterator=token)["Records"]) == [b"3"]
    for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        page = a_page(client, 0, kind, StartingSequenceNumber=numbers[0])
        assert data_of(page["Records"]) == [b"3"]


def test_longer_retention_keeps_records_longer(local, client):
    a_stream(client)
    put(client, b"old")
    client.increase_stream_retention_period(StreamName=STREAM, RetentionPeriodHours=48)
    local.clock.advance(47 * 3600)
    assert data_of(a_page(client)["Records"]) == [b"old"]
    client.decrease_stream_retention_period(StreamName=STREAM, RetentionPeriodHours=24)
    assert a_page(client)["Records"] == []


@pytest.mark.parametrize("hours", [0, 23, 8761])
def test_retention_is_24_to_8760_hours(client, hours):
    a_stream(client)
    for change in (client.increase_stream_retention_period, client.decrease_stream_retention_period):
        with refuses("InvalidArgumentException", "retention period"):
            change(StreamName=STREAM, RetentionPeriodHours=hours)
    client.increase_stream_retention_period(StreamName=STREAM, RetentionPeriodHours=8760)
    description = client.describe_stream(StreamName=STREAM)["StreamDescription"]
    assert description["RetentionPeriodHours"] == 8760


def test_increasing_to_a_shorter_retention_and_decreasing_to_a_longer_one_are_refused(client):
    a_stream(client)
    with refuses("InvalidArgumentException", "IncreaseRetentionPeriod"):
        client.decrease_stream_retention_period(StreamName=STREAM, RetentionPeriodHours=25)
    client.increase_stream_retention_period(StreamName=STREAM, RetentionPeriodHours=48)
    with refuses("InvalidArgumentException", "DecreaseRetentionPeriod"):
        client.increase_stream_retention_period(StreamName=STREAM, RetentionPeriodHours=47)


def test_a_shard_that_was_closed_longer_ago_than_the_retention_is_forgotten(local, client):
    a_stream(client)
    put(client)
    token = an_iterator(client)
    split(client, 0)
    local.clock.advance(24 * 3600 - 1)
    assert [shard["ShardId"][-1] for shard in shards_of(client)] == ["0", "1", "2"]
    latest = an_iterator(client, 0, "LATEST")
    local.clock.advance(2)
    assert ids_of(client) == [1, 2]
    assert shards_of(client)[0]["ParentShardId"] == "shardId-000000000000"
    for call in (lambda: an_iterator(client), lambda: client.get_records(ShardIterator=latest)):
        with refuses("ResourceNotFoundException", "does not exist"):
            call()
    with refuses("ExpiredIteratorException"):
        client.get_records(ShardIterator=token)


def test_tags_are_set_replaced_listed_in_pages_and_removed(client):
    a_stream(client, Tags={"a": "1"})
    client.add_tags_to_stream(StreamName=STREAM, Tags={"a": "2", "b": "3"})
    page = client.list_tags_for_stream(StreamName=STREAM, Limit=1)
    rest = client.list_tags_for_stream(StreamName=STREAM, ExclusiveStartTagKey="a")
    assert (page["Tags"], page["HasMoreTags"]) == ([{"Key": "a", "Value": "2"}], True)
    assert (rest["Tags"], rest["HasMoreTags"]) == ([{"Key": "b", "Value": "3"}], False)
    client.remove_tags_from_stream(StreamName=STREAM, TagKeys=["a", "absent"])
    assert client.list_tags_for_stream(StreamName=STREAM)["Tags"] == rest["Tags"]
    with refuses("InvalidArgumentException"):
        client.add_tags_to_stream(StreamName=STREAM, Tags={f"k{n}": "" for n in range(50)})
