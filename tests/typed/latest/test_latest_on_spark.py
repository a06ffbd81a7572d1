"""A table of the latest rows, through a real Spark: by keys of every type."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.parse import LatestSettings
from headrace.pipeline.settings.choices import Into, ParseFormat
from headrace.pipeline.settings.rules.latest import deletion_in
from headrace.pipeline.typed.latest.merging import LatestMerging
from headrace.pipeline.typed.latest.spark import SparkLatest
from headrace.pipeline.typed.wave import Parsing
from tests.lake.samples import a_key
from tests.typed.latest.beds import LatestBed
from tests.typed.parsings import A, B
from tests.typed.spark_parsings import EVENT, near_events, parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

SCHEMA = (
    "id BIGINT NOT NULL, n SMALLINT NOT NULL, name STRING NOT NULL, raw BINARY NOT NULL, day DATE NOT NULL, "
    "at TIMESTAMP NOT NULL, local TIMESTAMP_NTZ NOT NULL, amount DECIMAL(10,2) NOT NULL, is_new BOOLEAN NOT NULL, "
    "value STRUCT<of: ARRAY<INT>>, op STRING"
)


def latest(bed: LatestBed, spark: "SparkSession", **settings: Any) -> Parsing:
    made = parsing(bed, spark, into=Into.LATEST, **settings)
    rows = SparkLatest(
        session=lambda _: spark, table=bed.typed(), deletion=deletion_in(bed.settings.deletes_when), tasks=2
    )
    return replace(made, merging=LatestMerging(rows=rows, settings=bed.settings))


def values(bed: LatestBed) -> dict[str, Any]:
    return {row["sequence_number"]: row["value"] for row in read.rows(bed.typed()).to_pylist()}


def test_the_latest_row_stays_by_keys_of_every_type(spark: "SparkSession", tmp_path: Path):
    bed = LatestBed(tmp_path)
    near = near_events()
    own = {"schema": SCHEMA, "latest": LatestSettings(key=", ".join(EVENT), delete_when="op = 'd'")}

    def payload(event: dict[str, Any], number: int, **more: Any) -> bytes:
        return json.dumps({**event, "value": {"of": [number]}, **more}).encode()

    bed.land(A, {number: payload(event, number) for number, event in enumerate([EVENT, *near, EVENT], 10)})
    wave = latest(bed, spark, **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (10, 0, {"superseded": 1})
    # Each key is deleted or replaced by its own record only.
    bed.land(
        A, {30: payload(EVENT, 30, op="d"), 31: payload(near[0], 31), 32: payload({**EVENT, "id": None}, 32)}
    )
    wave = latest(bed, spark, **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 1, {"deletion": 1})
    assert values(bed) == {str(n): {"of": [n]} for n in [*range(12, 20), 31]}


class TableBed(LatestBed):
    def partition_key(self, payload: bytes) -> str:
        return json.dumps(json.loads(payload)["dynamodb"]["Keys"])


def test_changes_of_a_dynamodb_table_leave_the_items_that_it_has(spark: "SparkSession", tmp_path: Path):
    bed = TableBed(tmp_path, key=None)
    own = {
        "schema": "eventName STRING, NewImage STRUCT<id: STRING, total: DECIMAL(38, 9)>",
        "format": ParseFormat.DYNAMODB,
        "latest": LatestSettings(),
    }

    def change(name: str, item: str, total: str | None = None, **more: object) -> bytes:
        image = {} if total is None else {"NewImage": {"id": {"S": item}, "total": {"N": total}}}
        told = {"dynamodb": {"Keys": {"id": {"S": item}}, **image}, "eventName": name, **more}
        return json.dumps(told).encode()

    child = a_key(2)
    bed.land(
        A, {1: change("INSERT", "a", "1"), 2: change("INSERT", "b", "2"), 3: change("MODIFY", "a", "1.5")}
    )
    bed.land(B, {4: change("INSERT", "c", "3")})
    latest(bed, spark, **own).wave()
    bed.land(A, {}, ended=[child.shard_id])
    by_ttl = {"userIdentity": {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}}
    bed.land(
        child,
        {
            20: change("REMOVE", "b"),
            21: change("INSERT", "d", "4"),
            22: change("REMOVE", "c", None, **by_ttl),
        },
        parents=[A.shard_id],
    )
    # The child begins once its parent has ended in the table.
    for _ in range(2):
        latest(bed, spark, **own).wave()
    rows = read.rows(bed.typed(), ("record_key", "NewImage")).to_pylist()
    assert {row["NewImage"]["id"]: float(row["NewImage"]["total"]) for row in rows} == {
        "a": 1.5,
        "d": 4,
    }
    assert len({row["record_key"] for row in rows}) == 2
