"""Capacity: on-demand mode, warm throughput, how records are spread over shards."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from headrace.pipeline.local.inprocess import InProcessKinesis
from tests.local.builders import MIB, STREAM, a_stream, ids_of, put, refuses, shards_of, split

ARN = f"arn:aws:kinesis:us-east-1:123456789012:stream/{STREAM}"
ON_DEMAND = {"StreamMode": "ON_DEMAND"}
PROVISIONED = {"StreamMode": "PROVISIONED"}
EXCEEDED = "ProvisionedThroughputExceededException"


@pytest.fixture
def strict() -> InProcessKinesis:
    return InProcessKinesis(throttle=True)


def on_demand(client: Any, **more: Any) -> None:
    client.create_stream(StreamName=STREAM, StreamModeDetails=ON_DEMAND, **more)


def summary(client: Any) -> dict[str, Any]:
    described: dict[str, Any] = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    return described


def commit(client: Any) -> None:
    client.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})


def test_an_on_demand_stream_has_four_shards_at_first_and_says_its_mode(client: Any):
    on_demand(client)

    assert len(ids_of(client)) == 4
    assert summary(client)["StreamModeDetails"] == ON_DEMAND
    assert client.list_streams()["StreamSummaries"][0]["StreamModeDetails"] == ON_DEMAND
    assert client.describe_limits()["OnDemandStreamCount"] == 1


def test_an_on_demand_stream_refuses_to_be_resharded(client: Any):
    on_demand(client)

    with refuses("ValidationException", "on-demand"):
        split(client, 0)
    with refuses("ValidationException", "on-demand"):
        client.merge_shards(
            StreamName=STREAM,
            ShardToMerge="shardId-000000000000",
            AdjacentShardToMerge="shardId-000000000001",
        )
    with refuses("ValidationException", "on-demand"):
        client.update_shard_count(StreamName=STREAM, TargetShardCount=8, ScalingType="UNIFORM_SCALING")


def test_a_change_of_the_mode_keeps_shards_and_records_and_takes_its_time():
    slow = InProcessKinesis(transition=10)
    client: Any = slow.client()
    a_stream(client, 2)
    slow.clock.advance(10)
    put(client)
    client.update_stream_mode(StreamARN=ARN, StreamModeDetails=ON_DEMAND)
    while_updating = summary(client)
    slow.clock.advance(10)
    after = summary(client)

    assert (while_updating["StreamStatus"], while_updating["StreamModeDetails"]) == ("UPDATING", PROVISIONED)
    assert (after["StreamStatus"], after["StreamModeDetails"], after["OpenShardCount"]) == (
        "ACTIVE",
        ON_DEMAND,
        2,
    )


def test_the_mode_can_be_changed_twice_a_day(strict: InProcessKinesis):
    client: Any = strict.client()
    a_stream(client)
    for mode in (ON_DEMAND, PROVISIONED):
        client.update_stream_mode(StreamARN=ARN, StreamModeDetails=mode)
    with refuses("LimitExceededException", "2 times"):
        client.update_stream_mode(StreamARN=ARN, StreamModeDetails=ON_DEMAND)
    strict.clock.advance(24 * 3600 + 1)
    client.update_stream_mode(StreamARN=ARN, StreamModeDetails=ON_DEMAND)

    assert summary(client)["StreamModeDetails"] == ON_DEMAND


@pytest.mark.parametrize("by_list", [True, False], ids=["PutRecords", "PutRecord"])
def test_an_on_demand_stream_splits_a_shard_that_is_written_to_too_fast(
    strict: InProcessKinesis, *, by_list: bool
):
    client: Any = strict.client()
    on_demand(client)
    full: dict[str, Any] = {"Data": b"x" * (MIB - 3), "PartitionKey": "key", "ExplicitHashKey": "0"}
    client.put_record(StreamName=STREAM, **full)
    if by_list:
        answer = client.put_records(StreamName=STREAM, Records=[full])
        assert answer["FailedRecordCount"] == 1
    else:
        with refuses(EXCEEDED):
            client.put_record(StreamName=STREAM, **full)
    written = client.put_record(StreamName=STREAM, **full)

    assert [shard["ShardId"][-1] for shard in shards_of(client) if "ParentShardId" in shard] == ["4", "5"]
    assert written["ShardId"].endswith("4")


def test_a_provisioned_stream_never_splits_a_shard_by_itself(strict: InProcessKinesis):
    client: Any = strict.client()
    a_stream(client)
    full: dict[str, Any] = {"Data": b"x" * (MIB - 3), "PartitionKey": "key"}
    client.put_record(StreamName=STREAM, **full)
    with refuses(EXCEEDED):
        client.put_record(StreamName=STREAM, **full)

    assert ids_of(client) == [0]


def test_warm_throughput_makes_as_many_shards_in_an_account_that_committed_itself(client: Any):
    on_demand(client)
    with refuses("ValidationException", "ENABLED"):
        client.update_stream_warm_throughput(StreamName=STREAM, WarmThroughputMiBps=10)
    commit(client)
    answer = client.update_stream_warm_throughput(StreamName=STREAM, WarmThroughputMiBps=10)

    assert answer["WarmThroughput"] == {"TargetMiBps": 10, "CurrentMiBps": 4}
    assert summary(client)["WarmThroughput"] == {"TargetMiBps": 10, "CurrentMiBps": 10}
    assert summary(client)["OpenShardCount"] == 10


def test_warm_throughput_is_for_on_demand_streams_only(client: Any):
    a_stream(client)
    commit(client)

    with refuses("ValidationException", "on-demand"):
        client.update_stream_warm_throughput(StreamName=STREAM, WarmThroughputMiBps=10)


def test_a_stream_can_be_created_warm(client: Any):
    commit(client)
    on_demand(client, WarmThroughputMiBps=9)

    assert summary(client)["OpenShardCount"] == 9


def test_the_accounts_commitment_is_told(local: InProcessKinesis, client: Any):
    before = client.describe_account_settings()["MinimumThroughputBillingCommitment"]
    commit(client)
    after = client.describe_account_settings()["MinimumThroughputBillingCommitment"]

    assert before == {"Status": "DISABLED"}
    assert (after["Status"], after["StartedAt"].timestamp()) == ("ENABLED", local.clock())


def test_records_that_are_spread_evenly_go_to_all_shards_whatever_their_keys(client: Any):
    on_demand(client)
    by_key = {put(client)["ShardId"] for _ in range(20)}
    client.update_stream_record_distribution_strategy(StreamARN=ARN, RecordDistributionStrategy="AUTO")
    evenly = Counter(put(client)["ShardId"] for _ in range(200))

    assert len(by_key) == 1
    assert len(evenly) == 4
    assert min(evenly.values()) > 20
    assert summary(client)["RecordDistributionStrategy"] == "AUTO"


def test_a_provisioned_streams_records_go_by_their_keys_only(client: Any):
    a_stream(client)

    with refuses("ValidationException", "on-demand"):
        client.update_stream_record_distribution_strategy(StreamARN=ARN, RecordDistributionStrategy="AUTO")
