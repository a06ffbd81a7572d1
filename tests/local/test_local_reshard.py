"""Splits and merges neither lose nor double records, nor put them out of order."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.local.inprocess import InProcessKinesis
from tests.local.builders import (
    ALL_HASHES,
    STREAM,
    a_page,
    a_stream,
    an_iterator,
    data_of,
    ids_of,
    merge,
    put,
    read_out,
    refuses,
    shard_id,
    shards_of,
    split,
)


def ranges(shards):
    return [
        (int(s["HashKeyRange"]["StartingHashKey"]), int(s["HashKeyRange"]["EndingHashKey"])) for s in shards
    ]


def numbers(shard):
    found = shard["SequenceNumberRange"]
    return int(found["StartingSequenceNumber"]), int(found.get("EndingSequenceNumber", 0))


def test_a_split_closes_the_parent_and_opens_two_children_on_its_range(client):
    a_stream(client)
    split(client, 0, at=1000)
    parent, *children = shards_of(client)
    assert ranges(children) == [(0, 999), (1000, ALL_HASHES - 1)]
    assert [child["ParentShardId"] for child in children] == [parent["ShardId"]] * 2
    assert ["AdjacentParentShardId" in child for child in children] == [False, False]
    assert ["EndingSequenceNumber" in item["SequenceNumberRange"] for item in (parent, *children)] == [
        True,
        False,
        False,
    ]


def test_a_merge_closes_both_parents_and_opens_one_child_on_both_ranges(client):
    a_stream(client, 3)
    merge(client, 1, 0)
    first, second, _, child = shards_of(client)
    assert ranges([child]) == [(ranges([first])[0][0], ranges([second])[0][1])]
    assert (child["ParentShardId"], child["AdjacentParentShardId"]) == (first["ShardId"], second["ShardId"])


def test_childrens_sequence_numbers_are_above_their_parents_even_within_a_second(client):
    a_stream(client)
    put(client)
    for shard in (0, 1, 3):
        split(client, shard)
    by_id = {item["ShardId"]: item for item in shards_of(client)}
    pairs = [(by_id[item["ParentShardId"]], item) for item in by_id.values() if "ParentShardId" in item]
    assert len(pairs) == 6
    assert all(numbers(parent)[1] < numbers(child)[0] for parent, child in pairs)


def test_childrens_sequence_numbers_are_above_their_parents_if_the_shard_index_gets_another_digit(client):
    """A sequence number holds the last hexadecimal digit of the shard's index: after 15 comes 0."""
    a_stream(client, 16)
    split(client, 15)
    listed = shards_of(client)
    assert [numbers(listed[15])[1] < numbers(child)[0] for child in listed[16:]] == [True, True]


def test_the_ending_sequence_number_is_above_those_of_all_records(client):
    a_stream(client)
    last = int(put(client)["SequenceNumber"])
    split(client, 0)
    start, end = numbers(shards_of(client)[0])
    assert start < last < end


def test_after_a_split_puts_go_to_the_children_and_the_parent_keeps_its_own(client):
    a_stream(client)
    put(client, b"before")
    split(client, 0, at=1000)
    lower, upper = put(client, b"lower", ExplicitHashKey="999"), put(client, b"upper", ExplicitHashKey="1000")
    assert [lower["ShardId"], upper["ShardId"]] == [shard_id(1), shard_id(2)]
    assert [data_of(a_page(client, shard)["Records"]) for shard in range(3)] == [
        [b"before"],
        [b"lower"],
        [b"upper"],
    ]


def test_the_end_of_a_closed_shard_names_its_children_and_no_next_iterator(client):
    a_stream(client)
    put(client, b"1")
    put(client, b"2")
    waiting = an_iterator(client, 0, "LATEST")
    split(client, 0, at=1000)
    first = client.get_records(ShardIterator=an_iterator(client), Limit=1)
    last = client.get_records(ShardIterator=first["NextShardIterator"])
    assert "ChildShards" not in first
    for page, data in (
        (last, [b"2"]),
        (client.get_records(ShardIterator=waiting), []),
        (a_page(client, 0, "LATEST"), []),
    ):
        assert data_of(page["Records"]) == data
        assert "NextShardIterator" not in page
        assert page["ChildShards"] == [
            {
                "ShardId": shard_id(1),
                "ParentShards": [shard_id(0)],
                "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "999"},
            },
            {
                "ShardId": shard_id(2),
                "ParentShards": [shard_id(0)],
                "HashKeyRange": {"StartingHashKey": "1000", "EndingHashKey": str(ALL_HASHES - 1)},
            },
        ]


def test_both_parents_of_a_merge_name_the_same_child(client):
    a_stream(client, 2)
    merge(client, 0, 1)
    ends = [a_page(client, shard)["ChildShards"] for shard in (0, 1)]
    assert ends[0] == ends[1]
    assert ends[0][0]["ParentShards"] == [shard_id(0), shard_id(1)]


def test_puts_go_on_while_updating_and_another_reshard_has_to_wait():
    local = InProcessKinesis(transition=10)
    client = local.client()
    a_stream(client, 2)
    local.clock.advance(10)
    split(client, 0)
    assert put(client, b"meanwhile", ExplicitHashKey="0")["ShardId"] == shard_id(0)
    summary = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    assert (summary["StreamStatus"], summary["OpenShardCount"]) == ("UPDATING", 2)
    for reshard in (
        lambda: split(client, 1),
        lambda: merge(client, 0, 1),
        lambda: client.delete_stream(StreamName=STREAM),
    ):
        with refuses("ResourceInUseException", "UPDATING"):
            reshard()
    local.clock.advance(10)
    assert put(client, b"after", ExplicitHashKey="0")["ShardId"] == shard_id(2)
    assert data_of(a_page(client)["Records"]) == [b"meanwhile"]


@pytest.mark.parametrize("at", [0, 1, ALL_HASHES // 2 - 1, ALL_HASHES // 2, ALL_HASHES - 1])
def test_a_split_has_to_be_inside_the_shards_range(client, at):
    a_stream(client, 2)
    with refuses("InvalidArgumentException", "NewStartingHashKey"):
        split(client, 0, at=at)
    assert ids_of(client) == [0, 1]


def test_only_adjacent_open_shards_merge(client):
    a_stream(client, 3)
    for lower, upper in ((0, 2), (0, 0)):
        with refuses("InvalidArgumentException", "adjacent"):
            merge(client, lower, upper)
    split(client, 0)
    with refuses("InvalidArgumentException", "already been merged or split"):
        merge(client, 0, 1)
    with refuses("InvalidArgumentException", "already been merged or split"):
        split(client, 0)
    with refuses("ResourceNotFoundException", "Could not find shard"):
        merge(client, 1, 99)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_through_random_reshards_all_acknowledged_records_are_read_in_order_per_partition_key(seed):
    dice = Random(seed)
    local = InProcessKinesis(seed=seed, transition=dice.choice([0, 2]))
    client = local.client()
    a_stream(client, dice.randint(1, 4))
    local.clock.advance(2)
    acked: dict[str, list[bytes]] = defaultdict(list)
    for step in range(40):
        local.clock.advance(dice.choice([0, 0.5, 3]))
        if dice.random() < 0.4:
            reshard_somewhere(client, dice)
        put_some(client, dice, acked, step)
    assert read_by_family(client) == acked


def reshard_somewhere(client, dice):
    summary = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    if summary["StreamStatus"] != "ACTIVE":
        return
    open_now = sorted(
        (s for s in shards_of(client, ShardFilter={"Type": "AT_LATEST"})),
        key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]),
    )
    indexes = [int(s["ShardId"][-12:]) for s in open_now]
    if len(indexes) > 1 and dice.random() < 0.5:
        at = dice.randrange(len(indexes) - 1)
        merge(client, indexes[at], indexes[at + 1])
    else:
        split(client, dice.choice(indexes))


def put_some(client, dice, acked, step):
    sent = [(f"key-{dice.randrange(20)}", f"{step}-{n}".encode()) for n in range(dice.randint(1, 8))]
    answer = client.put_records(
        StreamName=STREAM, Records=[{"Data": data, "PartitionKey": key} for key, data in sent]
    )
    for (key, data), item in zip(sent, answer["Records"], strict=True):
        if "SequenceNumber" in item:
            acked[key].append(data)


def read_by_family(client):
    """Read every shard after its parents. A child's id is greater than its parents', so the order of ids is enough."""
    found = defaultdict(list)
    for index in ids_of(client):
        for record in read_out(client, an_iterator(client, index), limit=7):
            found[record["PartitionKey"]].append(record["Data"])
    return found
