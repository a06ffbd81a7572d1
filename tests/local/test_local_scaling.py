"""UpdateShardCount: splits and merges that lose no record lead to shards of equal size."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.local.inprocess import InProcessKinesis
from tests.local.builders import (
    ALL_HASHES,
    STREAM,
    a_stream,
    an_iterator,
    data_of,
    put,
    read_out,
    refuses,
    shards_of,
    split,
)

ROUNDING_ERROR = Fraction(
    1, 1 << 32
)  # the most by which a rounded border may be off, as a share of all hash keys


def scale(client, target):
    return client.update_shard_count(
        StreamName=STREAM, TargetShardCount=target, ScalingType="UNIFORM_SCALING"
    )


def open_ranges(client):
    found = [s for s in shards_of(client) if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
    return sorted(
        (int(s["HashKeyRange"]["StartingHashKey"]), int(s["HashKeyRange"]["EndingHashKey"]) + 1)
        for s in found
    )


def parents_of(shard):
    return [shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if name in shard]


@settings(max_examples=30)
@given(st.integers(1, 12), st.lists(st.integers(50, 200), min_size=1, max_size=4))
def test_after_any_sequence_of_counts_shards_are_equal_and_cover_all_hash_keys(first, percents):
    client = InProcessKinesis().client()
    a_stream(client, first)
    count = first
    for percent in percents:
        target = max(-(-count * percent // 100), 1)
        answer = scale(client, target)
        assert (answer["CurrentShardCount"], answer["TargetShardCount"]) == (count, target)
        count = target
        ranges = open_ranges(client)
        assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
        assert ranges[-1][1] == ALL_HASHES
        assert len(ranges) == target
        assert all(
            abs(Fraction(end - start, ALL_HASHES) - Fraction(1, target)) < ROUNDING_ERROR
            for start, end in ranges
        )
    shards = shards_of(client)
    assert {len(parents_of(shard)) for shard in shards} <= {0, 1, 2}
    assert all(parent < shard["ShardId"] for shard in shards for parent in parents_of(shard))


@pytest.mark.parametrize("count", [1, 3, 7, 100])  # 2^128 isn't divisible by 7, so each border is rounded
def test_doubling_splits_each_shard_once_and_halving_merges_each_pair_once(client, count):
    a_stream(client, count)
    scale(client, 2 * count)
    assert len(shards_of(client)) == 3 * count
    scale(client, count)
    assert len(shards_of(client)) == 4 * count


def test_scaling_from_four_to_six_shards_makes_short_lived_shards_as_on_aws(client):
    a_stream(client, 4)
    scale(client, 6)
    shards = shards_of(client)
    assert len(shards) == 4 + 8 + 2
    assert len(parents_of(shards[-1])) == 2


def test_uneven_shards_become_even(client):
    a_stream(client)
    split(client, 0, at=1000)
    scale(client, 2)
    assert open_ranges(client) == [(0, ALL_HASHES // 2), (ALL_HASHES // 2, ALL_HASHES)]


def test_no_record_is_lost_or_doubled_by_scaling(client):
    a_stream(client, 2)
    sent = []
    for step, target in enumerate((4, 6, 3, 2, 1)):
        for number in range(40):
            sent.append(f"{step}.{number}".encode())
            put(client, sent[-1], key=f"{step}.{number}")
        scale(client, target)
    found = [
        data
        for shard in shards_of(client)
        for data in data_of(read_out(client, an_iterator(client, int(shard["ShardId"][-12:]))))
    ]
    assert sorted(found) == sorted(sent)


@pytest.mark.parametrize(("count", "target", "why"), [(2, 5, "double"), (5, 2, "half"), (1, 3, "double")])
def test_more_than_double_and_less_than_half_are_refused(client, count, target, why):
    a_stream(client, count)
    with refuses("InvalidArgumentException", why):
        scale(client, target)


@pytest.mark.parametrize(("count", "target"), [(2, 4), (4, 2), (5, 3), (3, 3)])
def test_exactly_double_and_exactly_half_are_allowed(client, count, target):
    a_stream(client, count)
    scale(client, target)
    assert len(open_ranges(client)) == target


def test_more_than_ten_thousand_shards_are_refused(client):
    a_stream(client, 6000)
    with refuses("InvalidArgumentException", "10000"):
        scale(client, 10_001)


def test_scaling_is_refused_above_the_accounts_limit_of_shards(client):
    for name, count in (("a", 10_000), ("b", 8_000), (STREAM, 2_000)):
        a_stream(client, count, name=name)
    with refuses("LimitExceededException", "shard limit"):
        scale(client, 2_001)
    scale(client, 1_999)


def test_only_uniform_scaling_is_accepted(client):
    a_stream(client)
    with refuses("ValidationException", "UNIFORM_SCALING"):
        client.update_shard_count(StreamName=STREAM, TargetShardCount=2, ScalingType="OTHER")


def test_a_stream_is_updating_while_it_is_scaled_and_refuses_another_reshard():
    local = InProcessKinesis(transition=10)
    client = local.client()
    a_stream(client, 2)
    local.clock.advance(11)
    scale(client, 4)
    assert (
        client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamStatus"]
        == "UPDATING"
    )
    assert len(open_ranges(client)) == 2
    with refuses("ResourceInUseException"):
        scale(client, 4)
    local.clock.advance(11)
    assert len(open_ranges(client)) == 4


def test_with_throttle_a_stream_is_scaled_ten_times_a_day_at_most():
    local = InProcessKinesis(throttle=True)
    client = local.client()
    a_stream(client, 2)
    for target in (4, 2) * 5:
        scale(client, target)
    with refuses("LimitExceededException", "24 hours"):
        scale(client, 4)
    local.clock.advance(24 * 3600 + 1)
    scale(client, 4)
