"""The shop of the example in-your-project, with records that Headrace has landed and parsed."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.local.endpoint import LocalAws
from tests.examples.example import Example, copied

_LEAD = """
from headrace.pipeline.app.wiring import wire
from headrace.pipeline.settings.file import read_settings
for _ in range(3):
    wire(read_settings("mill/shop.yaml", {}).settings).leader_turn(None)
"""
_STOP_SPARK = "from headrace.pipeline.lake.spark.session import stop_local_server; stop_local_server()"


@contextmanager
def landed_shop(into: Path, aws: LocalAws, *amounts: int) -> Iterator[Example]:
    """The copied example in-your-project, whose tables have one sale of each amount."""
    shop = copied("in-your-project", into, aws)
    (into / "spark").mkdir()
    shop.variables[DISCOVERY] = str(into / "spark" / "connect.json")
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    records = [
        {"Data": json.dumps({"id": n, "amount": amount}).encode(), "PartitionKey": str(n)}
        for n, amount in enumerate(amounts)
    ]
    kinesis.put_records(StreamName="orders", Records=records)
    try:
        shop.run(sys.executable, "-c", _LEAD)
        config = ("--config", "mill/shop.yaml")
        shop.run("headrace", "consume", *config, "--shard", "shardId-000000000000")
        shop.run("headrace", "parse", *config, "sold")
        yield shop
    finally:
        shop.run(sys.executable, "-c", _STOP_SPARK)
