"""A table of AWS's DynamoDB Local lands through its stream: random changes, deletes, items whose time to live is over, and roll-overs,
real Spark tasks, a run that dies by SIGKILL, Dagster's sensors. The newest row of each key is then what a scan of the table finds."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3
import dagster as dg
import pytest
from botocore.config import Config

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.building import build_definitions
from headrace.pipeline.cli import DONE, TRY_LATER, main
from headrace.pipeline.cli.beside.services import prepare_dagster_home
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.file import read_settings
from tests.eventually import eventually

pytestmark = pytest.mark.slow

TABLE = "orders"
YAML = """
application: shop
streams: [{{name: "{arn}"}}]
workers: [{{id: w1}}]
landing: {{home: lake}}
aws: {{region: ddblocal, endpoint: "{endpoint}"}}
"""


class Shop:
    """A table with an application whose sensors tick when the test says so."""

    def __init__(self, endpoint: str, folder: Path, *, yaml: str = YAML, items: int = 200) -> None:
        self.folder = folder
        self._items = items
        self.dice = random.Random(28)
        # The table name of the test control has brackets, which boto3 would refuse.
        unchecked = Config(parameter_validation=False)
        self.client: Any = boto3.client("dynamodb", "us-east-1", endpoint_url=endpoint, config=unchecked)
        self.client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        self.client.update_time_to_live(
            TableName=TABLE, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
        )
        arn = self.client.describe_table(TableName=TABLE)["Table"]["LatestStreamArn"]
        file = folder / "headrace.yaml"
        file.write_text(yaml.format(arn=arn, endpoint=endpoint))
        self.settings = read_settings(str(file), {}).settings
        self._wiring = Wiring(self.settings, Adapters(self.settings))
        self._cursor: str | None = None
        self._value = 0

    def change(self, count: int) -> None:
        for _ in range(count):
            self._value += 1
            key = {"id": {"S": f"item {self.dice.randrange(self._items)}"}}
            chance = self.dice.random()
            if chance < 0.2:
                self.client.delete_item(TableName=TABLE, Key=key)
            elif chance < 0.5:
                # An update makes the item where there is none, and leaves its other attributes.
                self.client.update_item(
                    TableName=TABLE,
                    Key=key,
                    UpdateExpression="SET #v = :v ADD updates :one",
                    ExpressionAttributeNames={"#v": "value"},
                    ExpressionAttributeValues={":v": {"N": str(self._value)}, ":one": {"N": "1"}},
                )
            else:
                item = {**key, "value": {"N": str(self._value)}}
                if chance < 0.6:
                    item["expires"] = {"N": str(int(time.time()) - 1)}
                self.client.put_item(TableName=TABLE, Item=item)

    def fill(self) -> None:
        """Put each item that the table may have."""
        keys = [f"item {number}" for number in range(self._items)]
        for start in range(0, len(keys), 25):
            puts = [
                {"PutRequest": {"Item": {"id": {"S": key}, "value": {"N": "0"}}}}
                for key in keys[start : start + 25]
            ]
            self.client.batch_write_item(RequestItems={TABLE: puts})

    def no_item_has_expired(self) -> bool:
        return not any("expires" in item for item in self.scanned().values())

    def roll_over(self) -> None:
        self.client.put_item(TableName="[TEST_CONTROL]", Item={"ACTION": {"S": "ROLLOVER"}})

    def tick(self) -> list[str]:
        """Ticks of the leader's and the worker's sensor. Returns the shards that can be read."""
        for _ in range(2):
            self._wiring.leader_turn(None)
            turn = self._wiring.worker_turn("w1", self._cursor, instance="here", runs=NoDagster())
            self._cursor = turn.cursor
        return [row.key for row in self._wiring.leases().scan().leases if not row.has_ended]

    def land(self) -> None:
        eventually(self.no_item_has_expired, "DynamoDB has deleted the items whose time to live is over")

        def is_landed() -> bool:
            code = main(["consume", "--shard", *self.tick()])
            # DynamoDB Local fails for some seconds while it deletes many items.
            assert code in (DONE, TRY_LATER)
            return code == DONE

        for _ in range(3):
            eventually(is_landed, "a run has landed the changes")

    def kill_a_wave(self) -> None:
        """A wave of a process of its own dies by SIGKILL once its Spark tasks have staged rows."""
        shards = self.tick()
        before = self._files()
        command = [sys.executable, "-m", "headrace.pipeline.cli", "consume", "--shard", *shards]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as run:
            eventually(lambda: self._files() - before, "the wave has staged rows", every=0.01)
            run.send_signal(signal.SIGKILL)
        assert run.returncode == -signal.SIGKILL, "the wave was over before it was killed"

    def _files(self) -> set[Path]:
        return set((self.folder / "lake").rglob("*.parquet"))

    def _rows(self) -> list[dict[str, Any]]:
        columns = ["partition_key", "sequence_number", "data"]
        return read.rows(the_table(self.folder / "lake"), columns).to_pylist()

    def deletes_by_ttl(self) -> int:
        """Of the changes in the lake table, the deletes that DynamoDB made by itself."""
        changes = [json.loads(row["data"]) for row in self._rows()]
        identities = [
            (change["eventName"], change["userIdentity"]) for change in changes if "userIdentity" in change
        ]
        dynamodb = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
        assert all(identity == ("REMOVE", dynamodb) for identity in identities), identities[0]
        return len(identities)

    def newest(self) -> dict[str, Any]:
        """The image of each key after its newest change in the lake table."""
        rows = self._rows()
        assert len({row["sequence_number"] for row in rows}) == len(rows), "a change landed twice"
        rows.sort(key=lambda row: int(row["sequence_number"]))
        images = {row["partition_key"]: json.loads(row["data"])["dynamodb"].get("NewImage") for row in rows}
        return {image["id"]["S"]: image for image in images.values() if image is not None}

    def scanned(self) -> dict[str, Any]:
        pages = self.client.get_paginator("scan").paginate(TableName=TABLE)
        return {item["id"]["S"]: item for page in pages for item in page["Items"]}


@pytest.fixture
def shop(dynamodb_local: str, tmp_path: Path) -> Shop:
    return Shop(dynamodb_local, tmp_path)


def test_the_newest_rows_are_what_a_scan_of_the_table_finds(shop: Shop, capfd: pytest.CaptureFixture[str]):
    shop.change(1500)
    shop.land()
    for _ in range(2):
        shop.change(300)
        shop.roll_over()
        shop.change(300)
        shop.kill_a_wave()
        shop.land()

    assert shop.newest() == shop.scanned()
    assert shop.deletes_by_ttl() > 20
    capfd.readouterr()
    assert main(["prove"]) == 0, capfd.readouterr()


def test_dagster_loads_a_tables_stream_and_its_sensors_land_the_changes(
    shop: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """Names of streams and of shards are longer than Kinesis's, and have other characters: Dagster takes them all."""
    home = tmp_path / "dagster"
    prepare_dagster_home(home)
    repository = build_definitions(shop.settings).get_repository_def()
    cursors: dict[str, str | None] = {}
    with dg.DagsterInstance.from_config(str(home)) as instance:

        def tick(sensor: str) -> Sequence[dg.RunRequest]:
            context = dg.build_sensor_context(instance=instance, cursor=cursors.get(sensor))
            result = repository.get_sensor_def(f"shop_{sensor}")(context)
            assert isinstance(result, dg.SensorResult)
            cursors[sensor] = result.cursor
            for added in result.dynamic_partitions_requests or ():
                assert isinstance(added, dg.AddDynamicPartitionsRequest)
                instance.add_dynamic_partitions(added.partitions_def_name, added.partition_keys)
            return result.run_requests or ()

        def lands_all() -> bool:
            tick("leader")
            requests = tick("worker_w1")
            for request in requests:
                run = repository.get_job("shop_consume").execute_in_process(
                    instance=instance, run_config=request.run_config, tags=dict(request.tags)
                )
                assert run.success
            return bool(requests) and shop.newest() == shop.scanned()

        for _ in range(2):
            shop.change(300)
            shop.roll_over()
            eventually(shop.no_item_has_expired, "DynamoDB has deleted the items whose time to live is over")
            eventually(lands_all, "the sensors' runs have landed every change", within=240)
        assert len(instance.get_dynamic_partitions("shop_shards")) > 1
    capfd.readouterr()
    assert main(["prove"]) == 0, capfd.readouterr()
