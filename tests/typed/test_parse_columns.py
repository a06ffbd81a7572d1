"""Typed tables whose columns come from JSON payloads, through a real Spark and on real Iceberg."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.choices import ColumnsFrom, ParseFormat
from tests.typed.formats import test_decode_avro as avro
from tests.typed.formats import test_registry_header as headers
from tests.typed.parsings import A, Bed, Killed
from tests.typed.spark_parsings import parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def texts(*payloads: Any, start: int) -> dict[int, bytes]:
    return {n: json.dumps(each).encode() for n, each in enumerate(payloads, start=start)}


def reasons(bed: Bed) -> dict[str, str]:
    return {row["sequence_number"]: row["reason"] for row in read.rows(bed.quarantine()).to_pylist()}


def test_new_fields_become_columns_and_what_contradicts_them_goes_to_quarantine(
    spark: "SparkSession", tmp_path: Path
):
    bed = Bed(tmp_path)
    own = {"columns": ColumnsFrom.EVOLVING, "schema": "at TIMESTAMP, n INT", "most_columns": 8}
    bed.land(A, texts({}, {"e": [], "z": None}, start=1))
    assert parsing(bed, spark, **own).wave().landed == 2
    first = {"id": 1, "at": "2026-01-31T12:00:00Z", "items": [{"sku": "a"}], "n": 7}
    bed.land(A, texts(first, {"id": "one"}, {"ID": 2}, {"stream": "s"}, {"a.b": 1}, {"id": 2}, start=10))
    bed.land(A, {16: b'{"a\\u0000b": 1}', 17: b'{"x": ' + b"[" * 700 + b"1" + b"]" * 700 + b"}"})
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside) == (2, 6)
    # A field in an array's struct, a promotion, and a payload that would bring more columns than are allowed.
    flood = {f"k{n}": n for n in range(100)}
    bed.land(
        A, texts({"items": [{"sku": "b", "n": 1}, None], "n": 2**40}, flood, {"id": 3, "x": 1.5}, start=20)
    )
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside) == (2, 1)
    bed.check()
    rows = {row["sequence_number"]: row for row in read.rows(bed.typed()).to_pylist()}
    assert (rows["10"]["id"], rows["10"]["n"], rows["10"]["items"]) == (1, 7, [{"sku": "a", "n": None}])
    assert (rows["20"]["n"], rows["20"]["items"]) == (2**40, [{"sku": "b", "n": 1}, None])
    assert (rows["22"]["id"], rows["22"]["x"]) == (3, 1.5)
    why = reasons(bed)
    assert why["11"] == "the field id has text, and its column is of type long"
    assert "only in capital letters" in why["12"]
    assert "Headrace itself" in why["13"]
    assert "a dot" in why["14"]
    assert "a zero character" in why["16"]
    assert "deeper than 10 levels" in why["17"]
    assert "most_columns (8)" in why["21"]


@pytest.mark.slow
def test_columns_that_were_inferred_stay_also_where_the_run_is_killed_before_its_rows(
    spark: "SparkSession", tmp_path: Path
):
    bed = Bed(tmp_path)
    own = {
        "columns": ColumnsFrom.INFERRED,
        "schema": "",
        "filter": "CAST(data AS STRING) NOT LIKE '%skip%'",
    }
    bed.land(A, {1: b"[]"})
    assert parsing(bed, spark, **own).wave().aside == 1
    assert not bed.typed().own_columns().are_frozen
    bed.land(A, texts({"id": 1}, {"id": 2, "name": "n"}, {"skip": 1}, start=2))

    def killed(arrow: str) -> None:
        if arrow == "staged":
            raise Killed

    with pytest.raises(Killed):
        replace(parsing(bed, spark, **own), on_step=killed).wave()
    assert bed.typed().own_columns().are_frozen
    bed.land(A, texts({"id": 3, "other": 1}, {"id": "x"}, start=10))
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (3, 1, {"filter": 1})
    assert [number for _, number, _ in bed.parsed()] == [2, 3, 10]
    assert [each["name"] for each in bed.typed().own_columns().spark] == ["id", "name"]
    assert reasons(bed)["11"].startswith("the field id has text")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ParseFormat.AVRO_CONFLUENT, ParseFormat.AVRO_GLUE])
def test_an_unknown_schema_of_a_registry_costs_its_own_records_until_it_is_in_the_folder(
    spark: "SparkSession", tmp_path: Path, kind: ParseFormat
):
    bed = Bed(tmp_path)
    folder = tmp_path / "schemas"
    folder.mkdir()
    is_glue = kind is ParseFormat.AVRO_GLUE
    one, two = (str(UUID(int=n)) if is_glue else str(n) for n in (1, 2))
    begin = b"\3\0" + bytes(15) if is_glue else b"\0\0\0\0"
    (folder / f"{one}.avsc").write_text(json.dumps(headers.OLD))
    old = avro.written({"n": 1, "x": 5}, headers.OLD)
    new = avro.written({"n": 2, "s": "t"}, headers.NEW)
    own = {"format": kind, "schema": json.dumps(headers.NEW), "schemas": str(folder)}
    bed.land(A, {1: begin + b"\1" + old, 2: begin + b"\2" + new})
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside) == (1, 1)
    assert (
        reasons(bed)["2"] == f"the payload was written by schema {two}, which isn't in the folder `schemas`"
    )
    (folder / f"{two}.avsc").write_text(json.dumps(headers.NEW))
    bed.land(A, {3: begin + b"\2" + new})
    assert parsing(bed, spark, **own).wave().landed == 1
    bed.check()
    assert sorted(row["n"] for row in read.rows(bed.typed()).to_pylist()) == [1, 2]
