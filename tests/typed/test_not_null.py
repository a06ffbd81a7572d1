"""Columns that are NOT NULL, through a real Spark and on real Iceberg: rows that lack a value are set aside, whatever their format."""

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import LongType, NestedField

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.parse import UniqueSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.settings.choices import ColumnsFrom, Compression
from headrace.pipeline.settings.ddl import read_ddl
from headrace.pipeline.typed.json.column_types import ddl_of
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.spark.frames import columns_of
from headrace.pipeline.typed.tasks.exchange import copy_unselected
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.typed.parsings import A, B, Bed, good
from tests.typed.spark_parsings import of_a_callable, parsing
from tests.upkeep.compactions import InProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.typed.context import BatchContext

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

LACKS = "the payload has no value for what is NOT NULL: "
SCHEMA = (
    "id BIGINT NOT NULL COMMENT 'as sold', name STRING, address STRUCT<city: STRING NOT NULL, zip: STRING>, "
    "items ARRAY<STRUCT<sku: STRING NOT NULL, n: INT>>, prices MAP<STRING, STRUCT<amount: DECIMAL(10,2) NOT NULL>>"
)
GOOD = [
    {"id": 1, "name": None},
    {"id": 2, "address": {"city": "Bern"}, "items": [{"sku": "a"}, None], "prices": {"k": {"amount": 1.5}}},
    {"id": 3, "address": None, "items": [], "prices": {"k": None}},
]
BAD = {
    "id": {"name": "x"},
    "id, address.city": {"id": None, "address": {"zip": "1"}},
    "items[].sku": {"id": 4, "items": [{"sku": "a"}, {"n": 2}]},
    "prices[].amount": {"id": 5, "prices": {"k": {"amount": 1}, "j": {}}},
}


def payloads(*rows: Any, start: int) -> dict[int, bytes]:
    return {n: json.dumps(row).encode() for n, row in enumerate(rows, start=start)}


def reasons(bed: Bed) -> dict[bytes, str]:
    return {row["data"]: row["reason"] for row in read.rows(bed.quarantine()).to_pylist()}


def test_json_without_a_value_goes_to_quarantine_and_the_columns_are_required(
    spark: "SparkSession", tmp_path: Path
):
    bed = Bed(tmp_path)
    bed.land(A, payloads(*GOOD, *BAD.values(), start=10))
    packed = gzip.compress(b"{}")
    bed.land(B, {5: packed})
    own = {"schema": SCHEMA, "compression": Compression.AUTO}
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside) == (3, 5)
    bed.check()
    told = {json.dumps(row).encode(): f"{LACKS}{names}" for names, row in BAD.items()}
    # As it came, so that a redrive inflates it again.
    assert reasons(bed) == {**told, packed: f"{LACKS}id"}
    schema = bed.typed().open().schema()
    required = [
        path
        for path in (
            "id",
            "name",
            "address",
            "address.city",
            "address.zip",
            "items.element.sku",
            "prices.value.amount",
        )
        if schema.find_field(path).required
    ]
    assert required == ["id", "address.city", "items.element.sku", "prices.value.amount"]
    assert schema.find_field("id").doc == "as sold"
    rows = {row["id"]: row for row in read.rows(bed.typed()).to_pylist()}
    assert rows[2]["items"] == [{"sku": "a", "n": None}, None]
    assert (rows[3]["address"], rows[3]["items"], rows[3]["prices"]) == (None, [], [("k", None)])


def test_what_is_not_null_is_judged_before_the_same_event_is_left_out(spark: "SparkSession", tmp_path: Path):
    """A row in quarantine leaves no other one out."""
    bed = Bed(tmp_path)
    bed.land(A, payloads({"id": 1}, {"id": 1, "name": "x"}, {"id": 1, "name": "y"}, start=1))
    unique = UniqueSettings(by="id", within=timedelta(hours=1))
    wave = parsing(bed, spark, schema="id BIGINT, name STRING NOT NULL", unique=unique).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 1, {"duplicate": 1})
    assert [row["name"] for row in read.rows(bed.typed()).to_pylist()] == ["x"]
    assert reasons(bed) == {b'{"id": 1}': f"{LACKS}name"}


def halves(records: "DataFrame", _context: "BatchContext") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("data").cast("string")
    return records.select(
        "record",
        F.when(text != "none", text).alias("name"),
        F.when(text == "bad", F.lit("it is bad")).alias("quarantine_reason"),
        F.lit(b"own").alias("quarantine_data"),
    )


def test_rows_of_a_callable_without_a_value_go_to_quarantine_with_their_payloads(
    spark: "SparkSession", tmp_path: Path
):
    bed = Bed(tmp_path)
    packed = gzip.compress(b"none")
    bed.land(A, {1: b"one", 2: b"none", 3: b"bad", 4: packed})
    own = of_a_callable("halves", schema="name STRING NOT NULL", compression=Compression.AUTO)
    own["callable"] = f"{__name__}:halves"
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 3, {})
    assert reasons(bed) == {b"none": f"{LACKS}name", packed: f"{LACKS}name", b"own": "it is bad"}
    bed.check()


@pytest.mark.slow
def test_payloads_that_make_columns_keep_those_that_are_not_null(spark: "SparkSession", tmp_path: Path):
    bed = Bed(tmp_path)
    own = {"columns": ColumnsFrom.EVOLVING, "schema": "id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL>"}
    rows = [{"id": 1, "s": {"a": 1, "new": True}}, {"x": 5}, {"id": 2, "s": {"new": False}}]
    bed.land(A, payloads(*rows, start=1))
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside) == (1, 2)
    assert sorted(reasons(bed).values()) == [f"{LACKS}id", f"{LACKS}s.a"]
    told = ddl_of(bed.typed().own_columns().columns)
    assert told == "id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL, new: BOOLEAN>, x BIGINT"


def test_compaction_and_a_replacement_keep_what_is_not_null(spark: "SparkSession", tmp_path: Path):
    """They read files of such a table, and write their rows anew."""
    bed = Bed(tmp_path)
    for start in range(10, 60, 10):
        bed.land(A, payloads(*GOOD, start=start))
        parsing(bed, spark, schema=SCHEMA).wave()
    typed = bed.typed()
    before = sorted(map(str, read.rows(typed).to_pylist()))
    copied = copy_unselected(
        [file.path for file in IcebergSource(typed).look().files],
        [],
        spec=typed.staging_spec(),
        schema=schema_to_pyarrow(typed.open().schema()),
        streams=[A.stream],
        now=bed.clock.now,
    )
    assert sum(file.rows for file in copied.aside) == len(before)
    bed.clock.at += timedelta(hours=2)
    done = Compacting(
        table=IcebergLive(typed),
        rewriter=lambda: InProcess(typed),
        settings=UpkeepSettings(),
        clock=bed.clock,
    ).run()
    assert done.done
    assert sorted(map(str, read.rows(typed).to_pylist())) == before


def columns(**required: bool) -> list[NestedField]:
    return [
        NestedField(n, name, LongType(), required=is_so)
        for n, (name, is_so) in enumerate(required.items(), 1)
    ]


def test_an_empty_table_gets_what_is_not_null_and_one_with_rows_does_not(tmp_path: Path):
    bed = Bed(tmp_path)
    typed = bed.typed()
    typed.ensure(create=True)
    typed.with_columns(columns(id=False))
    typed.with_columns(columns(id=True, n=True))
    # Without NOT NULL rows may lack a value, and a column that the schema no longer names is null in each row.
    bed.land(A, {1: good(1)})
    bed.catch_up()
    assert not any(each.required for each in typed.open().schema().fields)
    for name in ("id", "other"):
        with pytest.raises(WrongShape, match=f"{name} of lake.orders should be NOT NULL .* another table"):
            typed.with_columns(columns(**{name: True}))
    assert "other" not in typed.open().schema().column_names


def test_parts_of_columns_may_become_null_and_never_the_other_way_round(tmp_path: Path):
    typed = Bed(tmp_path).typed()
    typed.ensure(create=True)

    def column(text: str) -> list[NestedField]:
        return columns_of([each.field for each in read_ddl(text)])

    strict = "s STRUCT<a: INT NOT NULL, b: ARRAY<STRUCT<c: INT NOT NULL>>, m: MAP<STRING, STRUCT<d: INT NOT NULL>>>"
    typed.with_columns(column(f"{strict} NOT NULL"))
    typed.with_columns(column(strict.replace(" NOT NULL", "")))
    schema = typed.open().schema()
    parts = ("s", "s.a", "s.b.element.c", "s.m.value.d")
    assert [schema.find_field(part).required for part in parts] == [False] * 4
    # No row is there yet.
    typed.with_columns(column(f"{strict} NOT NULL"))
    schema = typed.open().schema()
    assert [schema.find_field(part).required for part in parts] == [True] * 4


def test_rows_of_a_run_by_settings_without_not_null_are_refused_once_the_table_has_it(tmp_path: Path):
    """Both runs began with an empty table; the one without NOT NULL commits after the other one has changed the columns."""
    bed = Bed(tmp_path)
    bed.land(A, {1: good(1)})

    def strict(arrow: str) -> None:
        if arrow == "staged":
            bed.typed().with_columns(columns(id=True, other=True))

    with pytest.raises(WrongShape, match="the file's columns don't fit the table's"):
        replace(bed.parsing(), on_step=strict).wave()
    assert bed.parsed() == []
