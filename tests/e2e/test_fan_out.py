"""A stream lands by enhanced fan-out through a reshard: the leader registers the consumer, real Spark tasks subscribe, and a
proof finds each record once."""

from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.cli import main
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings

pytestmark = pytest.mark.slow

YAML = """
application: shop
streams: [{{name: orders, retrieval: {retrieval}}}]
workers: [{{id: w1}}]
landing: {{home: lake}}
aws: {{region: {region}, endpoint: "{endpoint}"}}
"""


class Shop:
    """An application whose sensors tick when the test says so."""

    def __init__(self, aws: LocalAws, folder: Path) -> None:
        self.aws = aws
        self.folder = folder
        self.client: Any = aws.client("kinesis")
        self.client.create_stream(StreamName="orders", ShardCount=2)
        self.put: list[str] = []
        self._cursor: str | None = None
        self.read_by("fanout")

    def read_by(self, retrieval: str) -> None:
        file = self.folder / "headrace.yaml"
        file.write_text(YAML.format(retrieval=retrieval, region=self.aws.region, endpoint=self.aws.endpoint))
        self.settings = read_settings(str(file), {}).settings
        self._wiring = Wiring(self.settings, Adapters(self.settings))

    def produce(self, count: int) -> None:
        start = len(self.put)
        entries = [{"Data": b"%d" % n, "PartitionKey": f"k{n}"} for n in range(start, start + count)]
        answer = self.client.put_records(StreamName="orders", Records=entries)
        self.put += [record["SequenceNumber"] for record in answer["Records"]]

    def tick(self) -> str:
        """Ticks of the leader's and the worker's sensor. Returns what the leader's said."""
        said = ""
        for _ in range(2):
            # Without its memory the leader syncs the shards in each tick, as after a restart.
            leader = self._wiring.leader_turn(None)
            worker = self._wiring.worker_turn("w1", self._cursor, instance="here", runs=NoDagster())
            self._cursor = worker.cursor
            said += str(leader.sentence)
        return said

    def land(self) -> None:
        # The shards that have ended give their children free for the next reading.
        for _ in range(2):
            self.tick()
            shards = [row.key for row in self._wiring.leases().scan().leases if not row.has_ended]
            assert main(["consume", "--shard", *shards]) == 0

    def subscriptions(self) -> int:
        return sum(fault["seen"] for fault in self.aws.faults())

    def landed(self) -> list[str]:
        rows = read.rows(the_table(self.folder / "lake"), ["sequence_number"]).to_pylist()
        return [row["sequence_number"] for row in rows]


@pytest.fixture
def shop(own_aws: LocalAws, tmp_path: Path) -> Shop:
    return Shop(own_aws, tmp_path)


def test_a_stream_lands_by_fan_out_through_a_reshard_and_a_change_to_polling(
    shop: Shop, capfd: pytest.CaptureFixture[str]
):
    # A fault that never strikes counts the calls that it would match.
    shop.aws.inject("error", operation="SubscribeToShard", skip=10_000)
    shop.produce(300)
    assert "consumer shop of orders registered" in shop.tick()
    shop.land()
    assert sorted(shop.landed()) == sorted(shop.put)
    assert shop.subscriptions() >= 2

    shop.client.split_shard(
        StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**126)
    )
    shop.produce(300)
    shop.land()
    assert sorted(shop.landed()) == sorted(shop.put)

    by_fan_out = shop.subscriptions()
    shop.read_by("polling")
    shop.produce(100)
    shop.land()

    assert sorted(shop.landed()) == sorted(shop.put)
    assert shop.subscriptions() == by_fan_out
    capfd.readouterr()
    assert main(["prove"]) == 0, capfd.readouterr()
