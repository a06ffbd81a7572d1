"""Typed tables through a real Spark: from_json and callables, on payloads of every kind."""

import gzip
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.errors import BadSetting, Unreachable, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.choices import Compression, ParseFormat
from headrace.pipeline.settings.parse_block import ParseSettings, UniqueSettings, Written
from headrace.pipeline.typed import spark as parse
from headrace.pipeline.typed.context import BatchContext
from headrace.pipeline.typed.filter_frame import FAILED, NOT_JSON
from headrace.pipeline.typed.frames import Frames
from headrace.pipeline.typed.json.text import NO_OBJECT
from headrace.pipeline.typed.spark import SparkParser
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wave import Parsing
from tests.lake.samples import NOON
from tests.typed.formats import test_decode_avro as avro
from tests.typed.formats import test_decode_protobuf as protobuf
from tests.typed.parsings import A, B, Bed, good, with_ports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

SCHEMA = (
    "id BIGINT, name STRING, at TIMESTAMP, amount DECIMAL(10,2), items ARRAY<STRUCT<sku: STRING, n: INT>>, "
    "tags MAP<STRING, STRING>, data STRING, visits ARRAY<STRUCT<day: DATE>>, marks MAP<STRING, TIMESTAMP_NTZ>"
)


def parsing(bed: Bed, spark: "SparkSession", **settings: Any) -> Parsing:
    bed.settings = replace(ParseSettings(name="orders", table="lake.orders", schema=SCHEMA), **settings)
    before = bed.parsing(limits=WaveLimits(1_000_000, 2**30))
    frames = Frames(bed.settings, BatchContext("orders", bed.settings.version, before.run))
    parser = SparkParser(
        session=lambda _: spark,
        frames=frames,
        source=bed.lake.handle(),
        table=bed.typed(),
        quarantine=bed.quarantine(),
        tasks=2,
    )
    return with_ports(
        before,
        parser=parser,
        dropped_as=frames.dropped_as,
        check_settings=frames.check,
        code=frames.code.text,
    )


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


def test_a_filter_chooses_records_and_the_others_are_counted(spark: "SparkSession", tmp_path: Path):
    bed = Bed(tmp_path)
    bed.land(A, {n: json.dumps({"id": n, "kind": "ab"[n % 2]}).encode() for n in range(10, 20)})
    wave = parsing(
        bed, spark, schema="id BIGINT", filter="get_json_object(CAST(data AS STRING), '$.kind') = 'a'"
    ).wave()
    assert (wave.landed, wave.dropped) == (5, {"filter": 5})
    assert [number for _, number, _ in bed.parsed()] == [10, 12, 14, 16, 18]


@pytest.mark.parametrize(
    ("condition", "left_out", "failing"),
    [
        # Null for a payload without the field: not wanted. Null for one that isn't JSON: nobody can tell.
        ("get_json_object(CAST(data AS STRING), '$.kind') = 'a'", 3, 0),
        (
            "CAST(get_json_object(CAST(data AS STRING), '$.kind') AS INT) + CAST(get_json_object(CAST(data AS STRING), '$.kind') AS INT) > 0",
            2,
            2,
        ),
        ("sequence = 1", 0, 0),
        ("partition_key = 'another'", 6, 0),
        ("1 / (length(data) - 13) > -9", 0, 3),
    ],
)
def test_payloads_that_a_filter_cant_judge_go_to_quarantine(
    spark: "SparkSession", tmp_path: Path, condition: str, left_out: int, failing: int
):
    bed = Bed(tmp_path)
    payloads = [b'{"kind": "a"}', b'{"kind": "b"}', b'{"other": 1}', b"no json", b"\xff", b'[{"kind": 1}]']
    bed.land(A, dict(enumerate(payloads, start=10)))
    bed.land(B, {5: b"?"}, malformed=[5])
    one = parsing(bed, spark, schema="kind STRING", filter=condition)
    if "sequence" in condition:
        with pytest.raises(BadSetting, match="can't read the filter"):
            one.wave()
        return
    wave = one.wave()
    reasons = [row["reason"] for row in read.rows(bed.quarantine()).to_pylist()]
    assert wave.dropped.get("filter", 0) == left_out
    assert reasons.count(FAILED) == failing
    assert reasons.count("the aggregate is cut off") == 1
    assert wave.landed + wave.aside + left_out == 7
    if "json" in condition:
        assert reasons.count(NOT_JSON) == 2


KEYS = (
    "id BIGINT, n SMALLINT, name STRING, raw BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, amount DECIMAL(10,2), "
    "is_new BOOLEAN"
)


def test_the_same_event_stays_once_by_keys_of_every_type(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(parse, "_ROWS_A_TASK", 4)  # several tasks mark and write
    event = {
        "id": 1,
        "n": -2,
        "name": "Zoë",
        "raw": "AAE=",
        "day": "2026-01-31",
        "at": "2026-01-31T12:00:00.123456Z",
        "local": "2026-01-31T12:00:00",
        "amount": 12.5,
        "is_new": True,
    }
    others = {
        "id": 2,
        "n": 0,
        "name": "",
        "raw": "AQ==",
        "day": "2026-02-01",
        "at": "2026-01-31T12:00:00.123457Z",
    }
    others |= {"local": "2026-01-31T12:00:01", "amount": 12.51, "is_new": False}
    near = [{**event, column: value} for column, value in others.items()]
    without = [{**event, column: None} for column in event]
    payloads = [json.dumps(each).encode() for each in [event, *near, *without]]
    own = {"schema": KEYS, "unique": UniqueSettings(by=", ".join(event), within=timedelta(hours=1))}
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


def upper(records: "DataFrame", context: BatchContext) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("data").cast("string")
    return records.where(text != "skip").select(
        "record",
        F.upper(text).alias("name"),
        F.lit(context.version).alias("by"),
        F.when(text == "bad", F.lit("it is bad")).alias("quarantine_reason"),
        F.col("data").alias("quarantine_data"),
    )


def twice(records: "DataFrame", context: BatchContext) -> "DataFrame":
    made = upper(records, context)
    return made.unionAll(made)


def fails(records: "DataFrame", _context: BatchContext) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    return records.select("record", F.raise_error(F.lit("no such currency")).cast("string").alias("name"))


def far_away(records: "DataFrame", _context: BatchContext) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    return records.select("record", F.array(F.timestamp_seconds(F.lit(1795515072000))).alias("seen"))


def of_a_callable(function: str, **settings: Any) -> dict[str, Any]:
    return {"format": ParseFormat.CALLABLE, "callable": f"{__name__}:{function}", **settings}


def test_a_callable_makes_rows_sets_some_aside_and_drops_others(spark: "SparkSession", tmp_path: Path):
    bed = Bed(tmp_path)
    bed.land(A, {1: b"one", 2: b"bad", 3: b"skip", 4: b"two"})
    made = parsing(bed, spark, **of_a_callable("upper", schema="name STRING, by STRING", version="7"))
    wave = made.wave()
    assert (wave.landed, wave.aside, wave.dropped) == (2, 1, {"callable": 1})
    rows = sorted((row["name"], row["by"]) for row in read.rows(bed.typed()).to_pylist())
    assert rows == [("ONE", "7"), ("TWO", "7")]
    (aside,) = read.rows(bed.quarantine()).to_pylist()
    assert (aside["data"], aside["reason"]) == (b"bad", "it is bad")


def test_a_callable_that_returns_rows_twice_fails_or_disagrees_with_its_schema_moves_nothing(
    spark: "SparkSession", tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    bed = Bed(tmp_path)
    bed.land(A, {1: b"one"})
    with pytest.raises(WrongShape, match="came back twice"):
        parsing(bed, spark, **of_a_callable("twice", schema="name STRING, by STRING")).wave()
    with pytest.raises(Unreachable, match="no such currency"):
        parsing(bed, spark, **of_a_callable("fails", schema="name STRING")).wave()
    with pytest.raises(
        Unreachable, match="a time in the column seen that is before the year 1 or after the year 9999"
    ):
        parsing(bed, spark, **of_a_callable("far_away", schema="seen ARRAY<TIMESTAMP>")).wave()
    with pytest.raises(BadSetting, match=r"the column by int in its schema, and .* returned string"):
        parsing(bed, spark, **of_a_callable("upper", schema="name STRING, by INT")).wave()
    with pytest.raises(BadSetting, match="can't be imported"):
        parsing(bed, spark, **of_a_callable("nothing", schema="name STRING")).wave()
    with pytest.raises(
        BadSetting, match="is wrong at 'STRIN': a column of an Iceberg table can't have this type"
    ):
        parsing(bed, spark, schema="name STRIN").wave()
    with pytest.raises(BadSetting, match="at 'ID': the column ID is there and id too"):
        parsing(bed, spark, schema="id INT, ID STRING").wave()
    for wrong in ("id > 3", "record IS NULL AND (", "1"):
        with pytest.raises(
            BadSetting,
            match=r"can't read the filter of the target orders: .*correct `filter` of the target orders",
        ):
            parsing(bed, spark, schema="id INT", filter=wrong).wave()
    # Spark's own log has the JVM's whole stack; the sentence says what is wrong.
    assert "QueryContextLogger" not in capfd.readouterr().err
    with pytest.raises(BadSetting, match="at 'stream': Headrace itself gives"):
        parsing(bed, spark, schema="stream STRING").wave()
    with pytest.raises(BadSetting, match="a dot in a name"):
        parsing(bed, spark, schema="`a.b` INT").wave()
    assert "by" in bed.typed().open().schema().column_names
    assert bed.typed().load().positions.of(A) is None
    assert bed.parsed() == bed.set_aside() == []


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


def test_the_function_in_the_documentation_does_what_the_page_says(spark: "SparkSession", tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "use" / "typed-tables.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "my_parsers.py").write_text(code)
    bed = Bed(tmp_path)
    bed.land(A, {1: b"sensor-7;21.5", 2: b"sensor-7", 3: b"sensor-8;warm"})
    settings: dict[str, Any] = {"callable": "my_parsers:readings", "schema": "sensor STRING, celsius DOUBLE"}
    settings["written"] = Written(str(tmp_path))
    wave = parsing(bed, spark, format=ParseFormat.CALLABLE, **settings).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 2, {})
    (row,) = read.rows(bed.typed()).to_pylist()
    assert (row["sensor"], row["celsius"]) == ("sensor-7", 21.5)
    reasons = {row["reason"] for row in read.rows(bed.quarantine()).to_pylist()}
    assert reasons == {"no number after the semicolon"}


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
