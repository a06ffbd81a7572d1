"""A table of the latest rows of a stream of JSON, through a split and a merge: each key has the row of its last record, or
none where that deletes it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.cli import main
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings

pytestmark = pytest.mark.slow

YAML = """
application: shop
streams: [{{name: customers}}]
workers: [{{id: w1}}]
landing: {{home: lake}}
wave: {{records: 150}}
aws: {{region: {region}, endpoint: "{endpoint}"}}
parse:
  - name: customers
    table: lake.customers
    into: latest
    latest: {{key: "id, country", delete_when: op = 'd'}}
    schema: "id BIGINT NOT NULL, country STRING NOT NULL, op STRING, value BIGINT"
"""


class Shop:
    def __init__(self, aws: LocalAws, folder: Path) -> None:
        self.client: Any = aws.client("kinesis")
        self.client.create_stream(StreamName="customers", ShardCount=2)
        file = folder / "headrace.yaml"
        file.write_text(YAML.format(region=aws.region, endpoint=aws.endpoint))
        self.settings = read_settings(str(file), {}).settings
        self._wiring = Wiring(self.settings, Adapters(self.settings))
        self._dice = random.Random(9)
        self._cursor: str | None = None
        self.values: dict[tuple[int, str], int] = {}
        """What each key has by the records in the order in which they were put."""

    def produce(self, count: int) -> None:
        entries = []
        for value in range(count):
            key = self._dice.randrange(60), self._dice.choice(["de", "fr"])
            op = "d" if self._dice.random() < 0.25 else "u"
            self.values.pop(key, None)
            if op == "u":
                self.values[key] = value
            payload = {"id": key[0], "country": key[1], "op": op, "value": value}
            entries.append({"Data": json.dumps(payload).encode(), "PartitionKey": f"{key[0]}/{key[1]}"})
        # One by one: records of one request may get their numbers in another order.
        for entry in entries:
            self.client.put_record(StreamName="customers", **entry)

    def land(self) -> None:
        # The shards that have ended give their children free for the next reading.
        for _ in range(3):
            for _ in range(2):
                self._wiring.leader_turn(None)
                worker = self._wiring.worker_turn("w1", self._cursor, instance="here", runs=NoDagster())
                self._cursor = worker.cursor
            shards = [row.key for row in self._wiring.leases().scan().leases if not row.has_ended]
            assert main(["consume", "--shard", *shards]) == 0

    def table(self) -> dict[tuple[int, str], int]:
        table = Adapters(self.settings).typed(self.settings.parse[0], "test")
        rows = read.rows(table, ("id", "country", "value")).to_pylist()
        values = {(row["id"], row["country"]): row["value"] for row in rows}
        assert len(values) == len(rows), "a key is there twice"
        return values


@pytest.fixture
def shop(own_aws: LocalAws, tmp_path: Path) -> Shop:
    return Shop(own_aws, tmp_path)


def test_each_key_has_its_last_record_through_a_split_and_a_merge(
    shop: Shop, capfd: pytest.CaptureFixture[str]
):
    shop.produce(300)
    shop.client.split_shard(
        StreamName="customers", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**126)
    )
    shop.produce(300)
    shop.land()
    # The parents and the children are parsed in several waves.
    assert main(["parse", "customers"]) == 0
    assert shop.table() == shop.values

    shop.client.merge_shards(
        StreamName="customers",
        ShardToMerge="shardId-000000000002",
        AdjacentShardToMerge="shardId-000000000003",
    )
    shop.produce(300)
    shop.land()
    assert main(["parse", "customers"]) == 0
    assert len(shop.table()) > 50
    assert shop.table() == shop.values

    capfd.readouterr()
    assert main(["prove"]) == 0, capfd.readouterr().out
    told = capfd.readouterr().out
    assert "each key has one row" in told
    assert "only the parsed payloads tell it" in told
