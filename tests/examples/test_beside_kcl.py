"""The example beside-kcl, on tables as a KCL 3.x application leaves them."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.cli.kcl_tables import KclTables, a_lock, a_worker, leases_of
from tests.examples.example import Example, copied

KCL_WORKERS = ("east-1",)


@pytest.fixture
def example(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    """A KCL application of one shard, whose worker has checkpointed the first record."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    aws.client("kinesis").create_stream(StreamName="orders", ShardCount=1)
    first = aws.client("kinesis").put_record(StreamName="orders", Data=b"1", PartitionKey="k")
    tables = KclTables(
        dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint)), "orders-consumer"
    )
    tables.put(leases_of(*KCL_WORKERS, checkpoint={"S": first["SequenceNumber"]}))
    tables.make_table(
        "WorkerMetricStats", "wid", [a_worker(name, key="wid") for name in sorted(set(KCL_WORKERS))]
    )
    tables.make_table("CoordinatorState", "key", [a_lock("east-1", key="key")])
    return copied("beside-kcl", tmp_path, aws)


def test_a_kcl_application_is_inspected_adopted_and_planned_for(example: Example):
    look = example.type("headrace status --table orders-consumer --for 30s", quickly=True)
    assert "east-1" in look
    assert "failover" in example.type("headrace config")

    adopted = json.loads(example.type("headrace adopt --json"))
    assert [shard["why"][:13] for shard in adopted["streams"][0]["shards"]] == ["goes on after"]
    assert "1 position adopted" in example.type("headrace adopt --watch 30s --yes", quickly=True)
    assert "the leader would" in example.type("headrace plan --for 30s", quickly=True)
