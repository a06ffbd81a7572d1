"""The same event stays once, through a real Spark: by keys of every type, in each format."""

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.parse import UniqueSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.typed.spark import parser as parse
from tests.lake.samples import NOON
from tests.typed.formats import test_decode_avro as avro
from tests.typed.formats import test_decode_protobuf as protobuf
from tests.typed.parsings import A, B, Bed, good
from tests.typed.spark_parsings import EVENT, near_events, parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


KEYS = (
    "id BIGINT, n SMALLINT, name STRING, raw BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, amount DECIMAL(10,2), "
    "is_new BOOLEAN"
)


def test_the_same_event_stays_once_by_keys_of_every_type(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(parse, "_ROWS_A_TASK", 4)  # several tasks mark and write
    without = [{**EVENT, column: None} for column in EVENT]
    payloads = [json.dumps(each).encode() for each in [EVENT, *near_events(), *without]]
    own = {"schema": KEYS, "unique": UniqueSettings(by=", ".join(EVENT), within=timedelta(hours=1))}
    bed = Bed(tmp_path)
    bed.land(A, dict(enumerate([*payloads, payloads[0], b"bad"], start=10)))
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (19, 1, {"duplicate": 1})
    bed.land(B, dict(enumerate([*payloads, b"bad"], start=100)), arrival=NOON + timedelta(minutes=59))
    wave = parsing(bed, spark, **own).wave()
    # What has a null in its key is compared with none.
    assert (wave.landed, wave.aside, wave.dropped) == (9, 1, {"duplicate": 10})
    assert [number for _, number, _ in bed.parsed()] == [*range(10, 29), *range(110, 119)]
    bed.land(A, {200: payloads[0]})
    with pytest.raises(BadSetting, match="names tags, whose type is map"):
        parsing(bed, spark, unique=UniqueSettings(by="tags", within=timedelta(hours=1))).wave()
    with pytest.raises(BadSetting, match="names sku, and the schema has no such column"):
        parsing(bed, spark, unique=UniqueSettings(by="sku", within=timedelta(hours=1))).wave()


@pytest.mark.parametrize(
    "kind", [ParseFormat.AVRO, pytest.param(ParseFormat.PROTOBUF, marks=pytest.mark.slow)]
)
def test_the_same_event_stays_once_where_python_tasks_decode(
    spark: "SparkSession", tmp_path: Path, kind: ParseFormat
):
    is_avro = kind is ParseFormat.AVRO
    one = avro.written(avro.ROW) if is_avro else protobuf.an_order()
    own: dict[str, Any] = (
        {"schema": avro.PLAIN.schema} if is_avro else {"schema": protobuf.CONTENT, "message": "shop.Order"}
    )
    own |= {"format": kind, "unique": UniqueSettings(by="number,customer", within=timedelta(hours=1))}
    bed = Bed(tmp_path)
    bed.land(A, {10: one, 11: one[:-1], 12: one})
    bed.land(B, {5: b"?"}, malformed=[5])
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 2, {"duplicate": 1})
    bed.land(B, {20: one, 21: one[:-1]}, arrival=NOON + timedelta(minutes=59))
    bed.land(B, {22: one}, arrival=NOON + timedelta(minutes=61))
    wave = parsing(bed, spark, filter="length(data) < 10000", **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 1, {"duplicate": 1})
    rows = {row["sequence_number"]: row for row in read.rows(bed.typed()).to_pylist()}
    assert rows.keys() == {"10", "22"}
    mine = (
        "stream",
        "stream_epoch",
        "shard_id",
        "sequence_number",
        "sub_sequence_number",
        "arrival_ts",
        "sort_key",
    )
    values = [{name: value for name, value in row.items() if name not in mine} for row in rows.values()]
    assert values[0] == values[1]
    if is_avro:
        assert values[0] == {**avro.ROW, "tags": [("k", 0.5)]}


@pytest.mark.slow
def test_the_same_event_stays_once_also_by_older_settings_after_the_column_was_widened(
    spark: "SparkSession", tmp_path: Path
):
    bed = Bed(tmp_path)
    unique = UniqueSettings(by="id, amount", within=timedelta(hours=1))
    for number, schema in (
        (1, "id INT, amount DECIMAL(10,2)"),
        (2, "id BIGINT, amount DECIMAL(12,2)"),
        (3, "id INT, amount DECIMAL(10,2)"),
    ):
        bed.land(A, {100 * number: b'{"id": 7, "amount": 1.5}', 100 * number + 1: good(number)})
        parsing(bed, spark, schema=schema, unique=unique).wave()
    assert [int(row["sequence_number"]) for row in read.rows(bed.typed()).to_pylist() if row["id"] == 7] == [
        100
    ]
