"""ListShards: pages, tokens, filters."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest

from tests.local.builders import (
    STREAM,
    a_stream,
    an_iterator,
    ids_of,
    merge,
    put,
    refuses,
    shard_id,
    shards_of,
    split,
)


def at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


@pytest.fixture
def family(local, client):
    """A stream with shards 0 and 1; after 100 s shard 0 is split into 2 and 3; after 200 s these are merged into 4."""
    start = local.clock()
    a_stream(client, 2)
    local.clock.advance(100)
    split(client, 0)
    local.clock.advance(100)
    merge(client, 2, 3)
    local.clock.advance(100)
    return start


@pytest.mark.parametrize(("shard_filter", "expected"), [
    ({"Type": "FROM_TRIM_HORIZON"}, [0, 1, 2, 3, 4]),
    ({"Type": "AT_TRIM_HORIZON"}, [0, 1]),
    ({"Type": "AT_LATEST"}, [1, 4]),
    ({"Type": "AFTER_SHARD_ID", "ShardId": shard_id(2)}, [3, 4]),
])  # fmt: skip
def test_each_shard_filter_lists_its_shards(client, family, shard_filter, expected):
    assert ids_of(client, ShardFilter=shard_filter) == expected
    assert ids_of(client) == [0, 1, 2, 3, 4]
    assert family


@pytest.mark.parametrize(("offset", "at_then", "from_then"), [
    (-50, [0, 1], [0, 1, 2, 3, 4]),
    (50, [0, 1], [0, 1, 2, 3, 4]),
    (150, [1, 2, 3], [1, 2, 3, 4]),
    (250, [1, 4], [1, 4]),
    (200, [1, 2, 3, 4], [1, 2, 3, 4]),
])  # fmt: skip
def test_filters_with_a_timestamp_list_the_shards_of_that_time(client, family, offset, at_then, from_then):
    when = at(family + offset)
    assert ids_of(client, ShardFilter={"Type": "AT_TIMESTAMP", "Timestamp": when}) == at_then
    assert ids_of(client, ShardFilter={"Type": "FROM_TIMESTAMP", "Timestamp": when}) == from_then


def test_the_trim_horizon_moves_with_the_clock_and_its_shards_always_cover_all_hash_keys(
    local, client, family
):
    found = []
    for moment in (50, 100, 150, 200, 250):
        local.clock.offset = 0
        local.clock.advance(24 * 3600 + moment)
        listed = shards_of(client, ShardFilter={"Type": "AT_TRIM_HORIZON"})
        found.append([int(shard["ShardId"][-12:]) for shard in listed])
        keys = sorted(
            (int(s["HashKeyRange"]["StartingHashKey"]), int(s["HashKeyRange"]["EndingHashKey"]))
            for s in listed
        )
        assert (keys[0][0], keys[-1][1]) == (0, 2**128 - 1)
        assert all(after[0] == before[1] + 1 for before, after in itertools.pairwise(keys))
    assert found == [[0, 1], [1, 2, 3], [1, 2, 3], [1, 4], [1, 4]]
    assert family


@pytest.mark.parametrize("shard_filter", [
    {"Type": "AT_TIMESTAMP"},
    {"Type": "FROM_TIMESTAMP", "ShardId": "shardId-000000000000"},
    {"Type": "AFTER_SHARD_ID"},
    {"Type": "AFTER_SHARD_ID", "ShardId": "shardId-000000000000", "Timestamp": 1},
    {"Type": "AT_LATEST", "Timestamp": 1},
    {"Type": "FROM_TRIM_HORIZON", "ShardId": "shardId-000000000000"},
])  # fmt: skip
def test_a_filter_takes_its_own_parameter_and_no_other(client, shard_filter):
    a_stream(client)
    with refuses("InvalidArgumentException", "ShardFilter"):
        client.list_shards(StreamName=STREAM, ShardFilter=shard_filter)


def test_2000_shards_are_listed_in_pages_of_at_most_1000_by_the_token_alone(client):
    a_stream(client, 2000)
    first = client.list_shards(StreamName=STREAM, MaxResults=10_000)
    second = client.list_shards(NextToken=first["NextToken"])
    listed = [int(shard["ShardId"][-12:]) for shard in first["Shards"] + second["Shards"]]
    assert (len(first["Shards"]), "NextToken" in second) == (1000, False)
    assert listed == list(range(2000))


def test_2000_shards_are_all_at_the_trim_horizon_and_take_puts(client: Any):
    a_stream(client, 2000)
    assert len(shards_of(client, ShardFilter={"Type": "AT_TRIM_HORIZON"})) == 2000
    sent = [{"Data": str(n).encode(), "PartitionKey": str(n)} for n in range(500)]
    answer = client.put_records(StreamName=STREAM, Records=sent)
    indexes = [int(item["ShardId"][-12:]) for item in answer["Records"]]
    read = [
        client.get_records(ShardIterator=an_iterator(client, index))["Records"]
        for index in sorted(set(indexes))
    ]
    assert sorted(record["Data"] for page in read for record in page) == sorted(
        str(n).encode() for n in range(500)
    )


def test_boto3s_paginator_fails_past_one_page_as_it_does_on_aws(client):
    a_stream(client, 1001)
    pages = client.get_paginator("list_shards").paginate(StreamName=STREAM)
    with refuses("InvalidArgumentException", "NextToken"):
        list(pages)


def test_a_token_keeps_its_filter_and_allows_another_max_results(client, family):
    first = client.list_shards(
        StreamName=STREAM, MaxResults=1, ShardFilter={"Type": "AFTER_SHARD_ID", "ShardId": shard_id(0)}
    )
    second = client.list_shards(NextToken=first["NextToken"], MaxResults=2)
    third = client.list_shards(NextToken=second["NextToken"])
    found = [[int(shard["ShardId"][-12:]) for shard in page["Shards"]] for page in (first, second, third)]
    assert found == [[1], [2, 3], [4]]
    assert family


def test_a_token_works_for_300_seconds(local, client, family):
    token = client.list_shards(StreamName=STREAM, MaxResults=1)["NextToken"]
    local.clock.advance(300)
    assert len(client.list_shards(NextToken=token)["Shards"]) == 4
    local.clock.advance(1)
    with refuses("ExpiredNextTokenException"):
        client.list_shards(NextToken=token)
    assert family


@pytest.mark.parametrize("more", [
    {"StreamName": STREAM},
    {"ExclusiveStartShardId": "shardId-000000000000"},
    {"StreamCreationTimestamp": 1},
])  # fmt: skip
def test_a_token_cannot_be_combined_with_other_parameters(client, family, more):
    token = client.list_shards(StreamName=STREAM, MaxResults=1)["NextToken"]
    with refuses("InvalidArgumentException", "NextToken"):
        client.list_shards(NextToken=token, **more)
    assert family


def test_a_token_of_a_deleted_stream_is_refused(client):
    a_stream(client, 2)
    token = client.list_shards(StreamName=STREAM, MaxResults=1)["NextToken"]
    client.delete_stream(StreamName=STREAM)
    a_stream(client, 2)
    with refuses("ResourceNotFoundException"):
        client.list_shards(NextToken=token)


def test_listing_may_begin_after_a_shard(client, family):
    assert ids_of(client, ExclusiveStartShardId=shard_id(3)) == [4]
    assert family


def test_the_creation_time_tells_streams_of_one_name_apart(client, family):
    assert len(ids_of(client, StreamCreationTimestamp=at(family))) == 5
    with refuses("ResourceNotFoundException"):
        client.list_shards(StreamName=STREAM, StreamCreationTimestamp=at(family - 60))


def test_a_forgotten_shard_is_in_no_listing(local, client, family):
    put(client)
    local.clock.advance(24 * 3600 - 50)
    assert ids_of(client) == [1, 4]
    assert ids_of(client, ShardFilter={"Type": "AT_TRIM_HORIZON"}) == [1, 4]
    assert family
