"""The rules by which JSON becomes columns, value by value (`json_rules`, `json_differences`), and how they are held to Spark's from_json."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.settings.blocks.parse import MOST_VALUES, ParseSettings
from headrace.pipeline.settings.rules.schema import columns_of_schema
from headrace.pipeline.typed.json.column_types import struct_of_fields
from headrace.pipeline.typed.json.columns import Limits
from headrace.pipeline.typed.json.decode import JsonDecoder, _Reader
from headrace.pipeline.typed.json.fit import Judge
from headrace.pipeline.typed.json.nested import Objects
from headrace.pipeline.typed.json.text import NO_OBJECT, NO_TEXT
from headrace.pipeline.typed.json.times import Dates, Times
from headrace.pipeline.typed.json.unfit import UnfitValues
from headrace.pipeline.typed.json.values import JsonValues
from tests.typed.formats.decodings import rows_of
from tests.typed.json import json_differences
from tests.typed.json.json_differences import OTHERWISE, TODAY, UNREADABLE, WHOLE_OTHERWISE
from tests.typed.json.json_rules import SAME, UNFIT, WHOLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[3] / "docs" / "use" / "typed-formats.md"
OF_WHOLE = "a BIGINT, b STRING"
VALUES = [(kind, value, made) for kind, values in SAME.items() for value, made in values]


def decoder_of(ddl: str, *, is_evolving: bool = False) -> JsonDecoder:
    columns = columns_of_schema(ParseSettings(name="orders", table="lake.orders", schema=ddl))
    fields = tuple(column.field for column in columns)
    judge = Judge(struct_of_fields(fields), Limits(300), is_whole=True) if is_evolving else None
    return JsonDecoder(fields, MOST_VALUES, judge)


def made_of(ddl: str, payloads: Sequence[bytes]) -> list[Any]:
    """A row, or a reason, of each payload."""
    return [row["reason"] or row["row"] for row in rows_of(decoder_of(ddl), payloads)]


def payload_of(value: str) -> bytes:
    return f'{{"v":{value}}}'.encode()


def plain(value: Any) -> Any:
    """As the tables of rules have it."""
    match value:
        case datetime():
            text = value.replace(tzinfo=None).isoformat(" ")
            return text.rstrip("0") if "." in text else text
        case date() | Decimal():
            return str(value)
        case float() if math.isnan(value) or math.isinf(value):
            return repr(value)
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list() | tuple():
            return type(value)(plain(part) for part in value)
        case _:
            return value


def test_the_tables_have_payloads_of_all_kinds():
    assert len(VALUES) + len(OTHERWISE) + len(WHOLE) + len(WHOLE_OTHERWISE) > 300


@pytest.mark.parametrize("kind", SAME)
def test_a_value_becomes_what_from_json_makes_of_it(kind: str):
    made = made_of(f"v {kind}", [payload_of(value) for value, _ in SAME[kind]])
    for (value, expected), row in zip(SAME[kind], made, strict=True):
        assert (UNFIT if isinstance(row, str) else plain(row["v"])) == expected, value


@pytest.mark.parametrize("difference", OTHERWISE, ids=lambda each: f"{each.kind} {each.json[:40]}")
def test_a_value_that_from_json_would_change_goes_to_quarantine_or_stays_as_it_is(
    difference: json_differences.Difference,
):
    (row,) = made_of(f"v {difference.kind}", [payload_of(difference.json)])
    assert (UNFIT if isinstance(row, str) else plain(row["v"])) == difference.ours
    # The quarantine table tells which column it is, unless the payload isn't JSON at all.
    assert not isinstance(row, str) or " v " in row or row == NO_OBJECT


@pytest.mark.parametrize(
    ("payload", "expected"),
    [*WHOLE, *((payload, made) for payload, made, _, _ in WHOLE_OTHERWISE)],
)
def test_a_payload_is_one_json_object_or_goes_to_quarantine(payload: bytes, expected: Any):
    (row,) = made_of(OF_WHOLE, [payload])
    assert (UNFIT if isinstance(row, str) else (row["a"], row["b"])) == expected
    assert not isinstance(row, str) or row in (NO_OBJECT, NO_TEXT) or "a (bigint)" in row or "twice" in row


def test_payloads_of_ten_megabytes_are_read_or_named():
    size = 10_000_000
    rows = made_of(
        "v DECIMAL(10,2), t STRING, n BIGINT, at TIMESTAMP",
        [
            b'{"t": "%s"}' % (b"x" * size),
            b'{"t": %s}' % (b"9" * size),
            b'{"v": %s}' % (b"9" * size),
            b'{"v": "%s"}' % (b"9" * size),
            b'{"n": %s}' % (b"9" * size),
            b'{"at": "%s"}' % (b"9" * size),
            b'{"t": "%s' % (b"x" * size),
            b'{"v": 1, "other": "%s"}' % (b"x" * size),
        ],
    )
    assert (len(rows[0]["t"]), len(rows[1]["t"]), plain(rows[7]["v"])) == (size, size, "1.00")
    unfit = "the payload has values that don't fit their columns: "
    assert rows[2:4] == [f"{unfit}v (decimal(10,2))"] * 2
    assert rows[4:7] == [f"{unfit}n (bigint)", f"{unfit}at (timestamp)", NO_OBJECT]


def test_each_reason_for_a_difference_from_spark_is_documented():
    text = DOCS.read_text(encoding="utf-8")
    for why in {difference.why for difference in OTHERWISE} | {why for *_, why in WHOLE_OTHERWISE}:
        assert f"| {why}" in text, why


# --- one reader: many at once and each by itself ------------------------------------------------------------------


DAYS = st.dates(min_value=date(1, 1, 1)).map(date.isoformat)
DIGITS = st.text("0123456789", max_size=9)
OFFSETS = st.sampled_from(
    ["", "Z", "+02:00", "-17:59", "+18:00", "+0200", "+2", " UTC", "GMT", "+18:01", "X"]
)
MOMENTS = st.builds(
    lambda day, gap, time, digits, zone: f"{day}{gap}{time}{'.' if digits else ''}{digits}{zone}",
    DAYS,
    st.sampled_from("T "),
    st.times().map(lambda time: time.isoformat("seconds"))
    | st.sampled_from(["12", "1:2", "24:00:00", "23:59:60"]),
    DIGITS,
    OFFSETS,
)
NEAR = st.lists(
    MOMENTS
    | DAYS
    | st.none()
    | st.text(max_size=12)
    | st.sampled_from(["2026-02-29", "2024-02-29T00:00:00Z", "0000-01-01T00:00:00Z"]),
    min_size=1,
    max_size=6,
)


def made_by(kind: Any, values: Sequence[Any]) -> list[Any]:
    """What becomes of the values, as numbers since 1970; UNFIT where one doesn't fit."""
    unfit: frozenset[int] = frozenset()
    try:
        array = kind.array(values)
    except UnfitValues as error:
        unfit = frozenset(error.places)
        array = kind.array([None if place in unfit else value for place, value in enumerate(values)])
    numbers = array.cast(pa.int32() if isinstance(kind, Dates) else pa.int64()).to_pylist()
    return [UNFIT if place in unfit else number for place, number in enumerate(numbers)]


@given(NEAR)
def test_times_become_the_same_alone_and_together(values: list[str | None]):
    in_utc, local = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
    for kind in (Times(in_utc, is_local=False), Times(local, is_local=True), Dates(pa.date32())):
        assert made_by(kind, values) == [made for value in values for made in made_by(kind, [value])]


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001 - hypothesis wants none
    st.integers(-17 * 60, 17 * 60) | st.none(),
    st.sampled_from("T "),
)
def test_a_time_is_that_of_its_calendar_and_zone(moment: datetime, minutes: int | None, gap: str):
    zone = UTC if minutes is None else timezone(timedelta(minutes=minutes))
    text = moment.replace(tzinfo=None if minutes is None else zone).isoformat(gap)
    (row,) = made_of("v TIMESTAMP", [json.dumps({"v": text}).encode()])
    assert row["v"] == moment.replace(tzinfo=zone)
    (row,) = made_of("v DATE", [json.dumps({"v": text}).encode()])
    assert row["v"] == moment.date()


NUMBERS = (
    st.decimals(allow_nan=False, allow_infinity=False).map(str)
    | st.decimals(-(10**9), 10**9, places=2).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.integers().map(str)
)


@given(
    st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=6),
    st.sampled_from([(10, 2), (38, 0), (38, 38), (5, 3)]),
)
def test_decimals_become_what_pythons_decimals_round_them_to(
    numbers: list[tuple[str, bool]], digits: tuple[int, int]
):
    precision, scale = digits
    texts = [f'"{number}"' if is_text else number.replace("E+", "e+") for number, is_text in numbers]
    rows = made_of(f"v DECIMAL({precision},{scale})", [payload_of(text) for text in texts])
    context = Context(prec=precision, rounding=ROUND_HALF_UP)
    for (number, _), row in zip(numbers, rows, strict=True):
        try:
            expected = Decimal(number).quantize(Decimal(1).scaleb(-scale), context=context)
        except InvalidOperation:
            assert isinstance(row, str), number
        else:
            assert row["v"] == expected, number


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | MOMENTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "x", "y", "new"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NESTED = (
    "id BIGINT, x STRING, y DOUBLE, at TIMESTAMP, amount DECIMAL(10,2), items ARRAY<STRUCT<x: INT, y: STRING>>, tags MAP<STRING, BIGINT>, "
    'part STRUCT<x: TIMESTAMP_NTZ, y: ARRAY<DECIMAL(5,1)>>, `a"b` BIGINT'
)
PAYLOADS = st.dictionaries(
    st.sampled_from(["id", "x", "y", "at", "amount", "items", "tags", "part", 'a"b', "new"]),
    JSON_VALUES,
    max_size=6,
)


@pytest.mark.parametrize("is_evolving", [False, True], ids=["given", "evolving"])
@pytest.mark.parametrize("ddl", [NESTED, NESTED.rpartition(", ")[0]], ids=["with an odd name", "without"])
@given(data=st.data())
def test_payloads_become_the_same_rows_and_reasons_alone_and_together(
    data: st.DataObject, *, ddl: str, is_evolving: bool
):
    payloads = [json.dumps(each).encode() for each in data.draw(st.lists(PAYLOADS, min_size=1, max_size=6))]
    decoder = decoder_of(ddl, is_evolving=is_evolving)
    together = [(row["row"], row["reason"]) for row in rows_of(decoder, payloads)]
    alone = [(row["row"], row["reason"]) for payload in payloads for row in rows_of(decoder, [payload])]
    assert together == alone


class Failing:
    """A column whose library fails on one value."""

    arrow = pa.int64()
    exact = int | None
    wide = int | None

    def array(self, values: Sequence[Any]) -> Any:
        if 13 in values:
            raise RuntimeError
        return pa.array(values, self.arrow)


def test_an_error_of_a_library_sets_one_payload_aside_and_no_other_one():
    kind = Objects(pa.struct([("v", pa.int64())]), [("v", Failing())])
    reader = _Reader(kind, JsonValues((("v", "long"),), MOST_VALUES), {"v": "long"}, None)
    parts = list(reader.read([payload_of(str(number)) for number in range(20)]))
    reasons = [why for _, part in parts for why in part]
    assert {place: why for place, why in enumerate(reasons) if why} == {
        13: "the payload can't be decoded: RuntimeError"
    }
    assert [row for rows, _ in parts for row in rows.to_pylist()][12:15] == [{"v": 12}, None, {"v": 14}]


@pytest.mark.parametrize(
    ("kind", "values", "unfit"),
    [
        ("ARRAY<TIMESTAMP>", ["[]", '["2026-01-31", "x"]', "null", '["2026-01-31"]', '["x"]', "[]"], {1, 4}),
        ("MAP<STRING, DATE>", ['{"a": "x"}', "{}", '{"a": "2026-01-31", "b": "x"}', '{"a": null}'], {0, 2}),
        ("ARRAY<ARRAY<DECIMAL(3,1)>>", ["[[], [1, 1000]]", "[[1], [2]]", "[null, []]", "[[1000]]"], {0, 3}),
        (
            "ARRAY<STRUCT<x: DOUBLE>>",
            ['[{"x": "y"}]', '[{}, {"x": "Infinity"}]', "[null]", '[{}, {"x": "y"}]'],
            {0, 3},
        ),
        ("STRUCT<x: STRUCT<y: DATE>>", ['{"x": {"y": "x"}}', '{"x": null}', '{"x": {"y": null}}', "{}"], {0}),
    ],
)
def test_a_part_that_doesnt_fit_sets_its_own_payload_aside(kind: str, values: list[str], unfit: set[int]):
    made = made_of(f"v {kind}", [payload_of(value) for value in values])
    assert {place for place, row in enumerate(made) if isinstance(row, str)} == unfit
    for value, row in zip(values, made, strict=True):
        assert [row] == made_of(f"v {kind}", [payload_of(value)]), value


@pytest.mark.parametrize(
    "ddl",
    [
        "id BIGINT, part STRUCT<x: INT>, parts ARRAY<STRUCT<x: INT>>",
        'id BIGINT, part STRUCT<x: INT, `a"b`: INT>, parts ARRAY<STRUCT<x: INT, `a\\b`: INT>>',
        'id BIGINT, `a"b` INT, part STRUCT<x: INT>, parts ARRAY<STRUCT<x: INT>>',
    ],
)
def test_an_evolving_table_drops_no_value_that_has_no_column(ddl: str):
    decoder = decoder_of(ddl, is_evolving=True)
    payloads = [
        b'{"id": 1, "part": {"x": 1}, "parts": [{"x": 1}]}',
        b'{"id": 1, "new": 1}',
        b'{"id": 1, "part": {"x": 1, "new": 1}}',
        b'{"id": 1, "parts": [{"x": 1}, {"new": 1}]}',
        b'{"id": 1, "new": null, "part": {"new": []}}',
    ]
    reasons = [row["reason"] for row in rows_of(decoder, payloads)]
    assert (reasons[0], reasons[4]) == (None, None)
    for name, reason in zip(("new", "part.new", "parts[].new"), reasons[1:4], strict=True):
        assert reason is not None
        assert reason.startswith(f"the field {name} has no column")


# --- Spark ------------------------------------------------------------------------------------------------------


def by_spark(spark: "SparkSession", ddl: str, payloads: Sequence[bytes]) -> list[Any]:
    """What from_json makes of each payload."""
    from pyspark.sql import functions as F  # noqa: N812

    numbered = pa.table({"number": range(len(payloads)), "payload": pa.array(payloads, pa.binary())})
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt", "timeZone": "UTC"}
    found = F.from_json(F.col("payload").cast("string"), f"{ddl}, corrupt STRING", options)
    has_times = ddl.startswith(("v DATE", "v TIMESTAMP"))
    value = F.col("found")["v"].cast("string") if has_times else F.col("found")
    rows = (
        spark.createDataFrame(numbered)
        .select("number", found.alias("found"))
        .select(
            "number",
            value.alias("value"),
            (F.col("found").isNull() | F.col("found")["corrupt"].isNotNull()).alias("bad"),
        )
        .orderBy("number")
        .toArrow()
        .to_pylist()
    )
    return [
        UNFIT
        if row["bad"]
        else row["value"]
        if has_times
        else {name: plain(part) for name, part in row["value"].items() if name != "corrupt"}
        for row in rows
    ]


def test_from_json_makes_of_each_value_and_payload_what_the_tables_say(spark: "SparkSession"):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        for kind in [*SAME, *{each.kind for each in OTHERWISE} - SAME.keys()]:
            others = [each for each in OTHERWISE if each.kind == kind]
            told = [*SAME.get(kind, []), *((each.json, each.spark) for each in others)]
            made = by_spark(spark, f"v {kind}", [payload_of(value) for value, _ in told])
            for (value, expected), row in zip(told, made, strict=True):
                found = row["v"] if isinstance(row, dict) else row
                assert (TODAY if expected == TODAY and row != UNFIT else found) == expected, f"{kind} {value}"
        whole = [*WHOLE, *((payload, made) for payload, _, made, _ in WHOLE_OTHERWISE if made != UNREADABLE)]
        made = by_spark(spark, OF_WHOLE, [payload for payload, _ in whole])
        for (payload, expected), row in zip(whole, made, strict=True):
            assert (row if row == UNFIT else (row["a"], row["b"])) == expected, payload
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
