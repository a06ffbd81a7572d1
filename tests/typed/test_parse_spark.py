"""Typed tables through a real Spark: JSON, DynamoDB's JSON, Avro and Protobuf, plain and compressed, on payloads of every kind."""

import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.choices import Compression, ParseFormat
from headrace.pipeline.typed.json.dynamodb import NO_CHANGE
from headrace.pipeline.typed.json.text import NO_OBJECT
from tests.typed.formats import test_decode_avro as avro
from tests.typed.formats import test_decode_protobuf as protobuf
from tests.typed.json import test_dynamodb_changes as changes
from tests.typed.parsings import A, B, Bed, good
from tests.typed.spark_parsings import SCHEMA, of_a_callable, parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

TWO_MISFITS = b'{"at": "soon", "name": "x", "id": [1], "amount": null, "other": {}}'
HOSTILE = [
    TWO_MISFITS,
    b"",
    b"null",
    b"[]",
    b"5",
    b'"text"',
    b"{",
    b"\xff\xfe\x00",
    b'{"name": "\xff"}',
    b'{"id": "one"}',
    b'{"id": 99999999999999999999}',
    b'{"id": 1}{"id": 2}',
    b'{"id": 1} and more',
    b'[{"id": 1}]',
    ('{"items":' + "[" * 3000 + "]" * 3000 + "}").encode(),
    b'{"at": "soon"}',
    # Spark takes the day on which it reads these.
    b'{"at": "10:00"}',
    b'{"at": " T10:00:00Z"}',
    # Milliseconds, which Spark reads as seconds: after the year 9999. Then a time before the year 1.
    b'{"at": 1795515072000}',
    b'{"at": -99999999999}',
    b'{"visits": [{"day": "2026-01-31"}, {"day": "+12026-01-31"}]}',
    b'{"marks": {"opened": "0000-12-31T23:59:59Z"}}',
    b'{"amount": 123456789012345.5}',
    b'{"amount": 1e999999999}',
    b'{"amount": "1e-999999999"}',
    b'{"amount": "%s"}' % (b"9" * 1_000_000),
]


def test_json_becomes_typed_columns_and_a_hostile_payload_costs_itself_only(
    spark: "SparkSession", tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    bed = Bed(tmp_path)
    whole = {
        "id": 7,
        "name": "Zoë",
        "at": "2026-01-31T12:00:00+02:00",
        "amount": 12.5,
        "items": [{"sku": "a", "n": 2}],
        "tags": {"k": "v"},
        "data": "x",
        "other": 1,
        "visits": [{"day": "0001-01-01"}, {"day": "9999-12-31"}],
        "marks": {"opened": "0001-01-01T00:00:00", "shut": "9999-12-31T23:59:59.999999"},
    }
    payloads = dict(enumerate([json.dumps(whole).encode(), *HOSTILE], start=10))
    bed.land(A, payloads)
    bed.land(B, {5: b"{}", 6: good(6)}, malformed=[6])
    wave = parsing(bed, spark).wave()
    assert (wave.landed, wave.aside) == (2, len(HOSTILE) + 1)
    # Such as of statistics that are missing for the parts of structs, lists and maps.
    assert [each.getMessage() for each in caplog.records if each.name.startswith("pyiceberg")] == []
    bed.check()
    rows = {row["sequence_number"]: row for row in read.rows(bed.typed()).to_pylist()}
    row = rows["10"]
    assert (row["id"], row["name"], row["amount"], row["data"]) == (7, "Zoë", Decimal("12.50"), "x")
    assert row["at"] == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert (row["items"], row["tags"]) == ([{"sku": "a", "n": 2}], [("k", "v")])
    assert rows["5"]["id"] is None
    aside = {row["sequence_number"]: row for row in read.rows(bed.quarantine()).to_pylist()}
    assert {row["data"] for row in aside.values()} == {*HOSTILE, good(6)}
    assert aside["6"]["reason"] == "the aggregate is cut off"
    assert "UTF-8" in aside[str(11 + HOSTILE.index(b"\xff\xfe\x00"))]["reason"]
    assert "the column at has a time" in aside[str(11 + HOSTILE.index(b'{"at": 1795515072000}'))]["reason"]
    told = {row["data"]: row["reason"] for row in aside.values()}
    unfit = "the payload has values that don't fit their columns: "
    assert told[b'{"id": "one"}'] == f"{unfit}id (bigint)"
    assert told[TWO_MISFITS] == f"{unfit}id (bigint), at (timestamp)"
    assert told[b'[{"id": 1}]'] == told[b"{"] == NO_OBJECT
    # A column more: the table gets it, and older rows have null there.
    odd = b'{"id": 1, "amount": 12.345, "NAME": "x", "id": 2}'
    bed.land(A, {100: b'{"id": 1, "flag": true}', 101: odd})
    assert parsing(bed, spark, schema=f"{SCHEMA}, flag BOOLEAN", version="2").wave().landed == 2
    rows = {row["sequence_number"]: row for row in read.rows(bed.typed()).to_pylist()}
    assert [row["flag"] for row in rows.values()].count(None) == 3
    row = rows["101"]
    assert (row["id"], row["name"], row["amount"]) == (2, None, Decimal("12.35"))


def test_changes_of_a_dynamodb_table_become_typed_columns(spark: "SparkSession", tmp_path: Path):
    bed = Bed(tmp_path)
    image = changes.EVERY_TYPE
    number = changes.a_change(NewImage={"id": {"S": "4711"}, "total": {"N": "12,5"}})
    payloads = {10: changes.a_change(NewImage=image, OldImage={"id": {"S": "4711"}}), 11: changes.a_change()}
    bed.land(A, {**payloads, 12: number, 13: b"no change"})

    of_table = parsing(bed, spark, format=ParseFormat.DYNAMODB, schema=changes.SCHEMA, stop_above=1.0)
    wave = of_table.wave()

    assert (wave.landed, wave.aside) == (2, 2)
    bed.check()
    rows = {row["sequence_number"]: row for row in read.rows(bed.typed()).to_pylist()}
    assert rows["10"]["NewImage"]["total"] == Decimal("1234567890123456789012345678.0123456789")
    assert rows["10"]["NewImage"]["raw"] == b"\xff\x00"
    assert rows["10"]["OldImage"] == [("id", "4711")]
    assert (rows["11"]["Keys"], rows["11"]["NewImage"]) == ({"id": "4711"}, None)
    aside = {row["sequence_number"]: row["reason"] for row in read.rows(bed.quarantine()).to_pylist()}
    assert "the column NewImage doesn't fit: its attribute total isn't a number" in aside["12"]
    assert aside["13"] == NO_CHANGE


@pytest.mark.parametrize("kind", ["json", "callable"])
def test_compressed_payloads_are_inflated_before_the_filter_and_the_parser(
    spark: "SparkSession", tmp_path: Path, kind: str
):
    bed = Bed(tmp_path)
    bomb = gzip.compress(bytes(2**22))
    texts = [b'{"name": "one"}', b'{"name": "two"}', b'{"name": "three"}', b"bad", b"skip"]
    payloads = [*map(gzip.compress, texts), b'{"name": "plain"}', gzip.compress(texts[0])[:-2], bomb]
    bed.land(A, dict(enumerate(payloads, start=10)))
    bed.land(B, {5: b"\x1f\x8b"}, malformed=[5])
    own = (
        of_a_callable("upper", schema="name STRING, by STRING")
        if kind == "callable"
        else {"schema": "name STRING"}
    )
    wave = parsing(
        bed, spark, compression=Compression.AUTO, filter="CAST(data AS STRING) NOT LIKE '%three%'", **own
    ).wave()
    aside = {row["sequence_number"]: row for row in read.rows(bed.quarantine()).to_pylist()}
    assert "its end is missing" in aside["16"]["reason"]
    assert "more than 200 times" in aside["17"]["reason"]
    assert aside["5"]["reason"] == "the aggregate is cut off"
    assert {aside[each]["data"] for each in ("16", "17", "5")} == {payloads[6], bomb, b"\x1f\x8b"}
    # A payload that couldn't be inflated is parsed again by a redrive; a malformed aggregate has no payload of a user.
    assert [aside[each]["decode_error"] for each in ("16", "17", "5")] == [
        None,
        None,
        "the aggregate is cut off",
    ]
    if kind == "json":
        assert (wave.landed, wave.dropped) == (3, {"filter": 1})
        assert aside["13"]["data"] == payloads[3]
        assert sorted(row["name"] for row in read.rows(bed.typed()).to_pylist()) == ["one", "plain", "two"]
    else:
        assert (wave.landed, wave.dropped) == (3, {"filter": 1, "callable": 1})
        assert aside["13"]["data"] == b"bad"


@pytest.mark.parametrize("kind", [ParseFormat.AVRO, ParseFormat.PROTOBUF])
def test_avro_and_protobuf_become_typed_columns_with_and_without_a_filter(
    spark: "SparkSession", tmp_path: Path, kind: ParseFormat
):
    is_avro = kind is ParseFormat.AVRO
    one = avro.written(avro.ROW) if is_avro else protobuf.an_order()
    own = {"schema": avro.PLAIN.schema} if is_avro else {"schema": protobuf.CONTENT, "message": "shop.Order"}
    own |= {"format": kind, "compression": Compression.AUTO}
    bed = Bed(tmp_path)
    packed = gzip.compress(one[:-1])
    bed.land(A, {10: one, 11: one[:-1], 12: gzip.compress(one), 13: packed})
    bed.land(B, {5: b"?", 6: gzip.compress(one)[:-1]}, malformed=[5])
    wave = parsing(bed, spark, **own).wave()
    assert (wave.landed, wave.aside) == (2, 4)
    bed.check()
    rows = read.rows(bed.typed()).to_pylist()
    assert {(row["sequence_number"], row["number"], row["customer"]) for row in rows} == {
        ("10", 7, "Zoë"),
        ("12", 7, "Zoë"),
    }
    aside = {row["sequence_number"]: row for row in read.rows(bed.quarantine()).to_pylist()}
    assert aside["13"]["data"] == packed
    assert aside["5"]["reason"] == "the aggregate is cut off"
    assert "its end is missing" in aside["6"]["reason"]
    bed.land(A, {20: one, 21: one + b"x"})
    wave = parsing(bed, spark, filter=f"length(data) <= {len(one)}", **own).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 0, {"filter": 1})


def test_an_avro_schema_with_a_column_of_headrace_is_refused(spark: "SparkSession", tmp_path: Path):
    bed = Bed(tmp_path)
    bed.land(A, {1: b"one"})
    schema = '{"type": "record", "name": "R", "fields": [{"name": "Stream", "type": "string"}]}'
    with pytest.raises(BadSetting, match="has a column Stream"):
        parsing(bed, spark, format=ParseFormat.AVRO, schema=schema).wave()
    assert not bed.typed().exists()
