"""Changes of a DynamoDB table: each becomes a row with typed columns of its key and images, or goes to quarantine with a reason."""

import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.ddl import WrongDdl
from headrace.pipeline.settings.rules.schema import columns_of_schema
from headrace.pipeline.typed.json.decode import JsonDecoder
from headrace.pipeline.typed.json.dynamodb import NO_CHANGE, DynamoDbDecoder
from tests.typed.formats.decodings import rows_of

SCHEMA = """
eventName STRING, ApproximateCreationDateTime BIGINT,
Keys STRUCT<id: STRING>,
NewImage STRUCT<id: STRING, total: DECIMAL(38, 10), count: BIGINT, tags: ARRAY<STRING>, marks: ARRAY<DECIMAL(38, 0)>,
  raw: BINARY, parts: ARRAY<BINARY>, is_paid: BOOLEAN, note: STRING, places: MAP<STRING, STRING>,
  lines: ARRAY<STRUCT<sku: STRING, n: INT>>>,
OldImage MAP<STRING, STRING>
"""
EVERY_TYPE: dict[str, dict[str, Any]] = {
    "id": {"S": "4711"},
    "total": {"N": "1234567890123456789012345678.0123456789"},
    "count": {"N": "-9007199254740993"},
    "tags": {"SS": ["a", "Zoë"]},
    "marks": {"NS": ["1", "99999999999999999999999999999999999999"]},
    "raw": {"B": "/wA="},
    "parts": {"BS": ["AQ==", "Ag=="]},
    "is_paid": {"BOOL": True},
    "note": {"NULL": True},
    "places": {"M": {"home": {"S": "Bonn"}, "floor": {"N": "2"}}},
    "lines": {"L": [{"M": {"sku": {"S": "x"}, "n": {"N": "3"}}}, {"M": {"sku": {"S": "y"}}}]},
}


def the_decoder(schema: str = SCHEMA, most_values: int = 10_000) -> DynamoDbDecoder:
    target = ParseSettings(name="t", table="lake.t", format=ParseFormat.DYNAMODB, schema=schema)
    fields = tuple(column.field for column in columns_of_schema(target))
    # A task gets it pickled.
    decoder: DynamoDbDecoder = pickle.loads(pickle.dumps(DynamoDbDecoder(JsonDecoder(fields, most_values))))
    return decoder


def a_change(**members: Any) -> bytes:
    change = {"Keys": {"id": {"S": "4711"}}, "ApproximateCreationDateTime": 1795702620.0, **members}
    return json.dumps({"eventName": "MODIFY", "eventVersion": "1.1", "dynamodb": change}).encode()


def why_not(payload: bytes, **decoder: Any) -> str:
    [row] = rows_of(the_decoder(**decoder), [payload])
    return str(row["reason"])


def test_each_type_of_dynamodb_has_its_column_and_numbers_keep_all_their_digits():
    old = {"id": {"S": "4711"}, "total": {"N": "1.10"}, "gone": {"NULL": True}, "raw": {"B": "AQ=="}}

    [row] = rows_of(the_decoder(), [a_change(NewImage=EVERY_TYPE, OldImage=old)])

    assert row["row"] == {
        "eventName": "MODIFY",
        "ApproximateCreationDateTime": 1795702620,
        "Keys": {"id": "4711"},
        "NewImage": {
            "id": "4711",
            "total": Decimal("1234567890123456789012345678.0123456789"),
            "count": -9007199254740993,
            "tags": ["a", "Zoë"],
            "marks": [Decimal(1), Decimal(99999999999999999999999999999999999999)],
            "raw": b"\xff\x00",
            "parts": [b"\x01", b"\x02"],
            "is_paid": True,
            "note": None,
            "places": [("home", "Bonn"), ("floor", "2")],
            "lines": [{"sku": "x", "n": 3}, {"sku": "y", "n": None}],
        },
        "OldImage": [("id", "4711"), ("total", "1.10"), ("gone", None), ("raw", "AQ==")],
    }


@pytest.mark.parametrize("image", [{}, {"NewImage": {}}, {"NewImage": None}])
def test_an_image_that_is_not_there_is_null(image: dict[str, Any]):
    """KCL's adapter writes it as an empty object."""
    [row] = rows_of(the_decoder(), [a_change(**image)])

    assert row["reason"] is None
    assert row["row"]["NewImage"] is None
    assert row["row"]["Keys"] == {"id": "4711"}


@pytest.mark.parametrize("written", ["1795762860", "1795762860.000", "1.79576286E9"])
def test_the_time_of_a_change_is_whole_seconds_however_dynamodb_writes_them(written: str):
    change = b'{"dynamodb": {"ApproximateCreationDateTime": %s, "Keys": {}}}' % written.encode()
    at = datetime.fromtimestamp(1795762860, UTC)

    for kind, value in (("TIMESTAMP", at), ("BIGINT", 1795762860)):
        [row] = rows_of(the_decoder(f"ApproximateCreationDateTime {kind}"), [change])
        assert row["row"] == {"ApproximateCreationDateTime": value}


@pytest.mark.parametrize("written", ["1795762860.5", "1e999", '"soon"', "NaN"])
def test_another_time_of_a_change_does_not_fit(written: str):
    change = b'{"dynamodb": {"ApproximateCreationDateTime": %s, "Keys": {}}}' % written.encode()

    [row] = rows_of(the_decoder("ApproximateCreationDateTime TIMESTAMP"), [change])

    assert row["row"] is None
    assert row["reason"]


def test_a_wave_of_good_and_bad_changes_has_each_reason_at_its_own_place():
    good = a_change(NewImage=EVERY_TYPE)
    payloads = [b"no JSON", good, a_change(NewImage={"total": {"N": "x"}}), good, None, good]

    rows = rows_of(the_decoder(), payloads[:4])

    assert [row["reason"] is None for row in rows] == [False, True, False, True]
    assert rows[1]["row"] == rows[3]["row"]


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ({"total": {"N": "12,5"}}, "the column NewImage doesn't fit: its attribute total isn't a number, and its type is N"),
        ({"total": {"N": "NaN"}}, "the column NewImage doesn't fit: its attribute total isn't a number, and its type is N"),
        ({"marks": {"NS": ["1", ""]}}, "the column NewImage doesn't fit: its attribute marks isn't a number, and its type is N"),
        ({"total": "12"}, "the column NewImage doesn't fit: its attribute total isn't an object with one type and its value"),
        ({"total": {}}, "the column NewImage doesn't fit: its attribute total isn't an object with one type and its value"),
        ({"total": {"N": 12}}, "the column NewImage doesn't fit: its attribute total has no value of DynamoDB's type N"),
        ({"id": {"X": "1"}}, "the column NewImage doesn't fit: its attribute id has no value of DynamoDB's type X"),
        (
            {"places": {"M": {"home": {"M": {"x": {"N": "?"}}}}}},
            "the column NewImage doesn't fit: its attribute places.home.x isn't a number, and its type is N",
        ),
        ([1], "the column NewImage doesn't fit: it isn't an item of DynamoDB's"),
    ],
)  # fmt: skip
def test_what_is_no_value_of_dynamodb_is_named_with_its_column_and_attribute(image: Any, reason: str):
    assert why_not(a_change(NewImage=image)) == reason


@pytest.mark.parametrize(
    "image",
    [
        {"count": {"N": "1.5"}},
        {"count": {"S": "a"}},
        {"total": {"N": "1" + 30 * "0"}},
        {"total": {"N": "1e999999999"}},
        {"raw": {"B": "no base64"}},
        {"tags": {"S": "a"}},
        {"lines": {"L": [{"S": "x"}]}},
    ],
)
def test_a_value_that_does_not_fit_its_column_is_named(image: Any):
    assert why_not(a_change(NewImage=image)).startswith(
        "the payload has values that don't fit their columns: NewImage (struct<"
    )


@pytest.mark.parametrize(
    "payload",
    [b"", b"[1]", b'{"eventName": "INSERT"}', b'{"dynamodb": {}}', b'{"dynamodb": 7}', b'{"dynamodb": {"Keys": {}}, "\xff": 1}'],
)  # fmt: skip
def test_what_is_no_change_is_called_so(payload: bytes):
    assert why_not(payload) == NO_CHANGE


def test_what_has_no_column_is_not_looked_at():
    image = {"id": {"S": "4711"}, "other": {"N": "no number"}}

    [row] = rows_of(the_decoder("NewImage STRUCT<id: STRING>"), [a_change(NewImage=image, OldImage=7)])

    assert row["row"] == {"NewImage": {"id": "4711"}}


def test_a_change_with_too_many_values_or_levels_goes_to_quarantine():
    many = a_change(NewImage={"tags": {"SS": ["a"] * 200}})
    deep = b'{"dynamodb": {"Keys": {}, "NewImage": {"id": ' + b'{"L": [' * 9_000 + b"]}" * 9_000 + b"}}}"

    assert why_not(many, most_values=100) == "the payload makes more than 100 values (most_values)"
    assert why_not(deep, most_values=1_000_000) == NO_CHANGE
    nested = a_change(NewImage={"id": json.loads('{"L": [' * 300 + "]}" * 300)})
    assert rows_of(the_decoder(), [nested])[0]["row"]["NewImage"]["id"] == "[" * 300 + "]" * 300


def test_a_column_that_no_change_has_is_refused_with_those_that_there_are():
    with pytest.raises(
        WrongDdl, match="has no such member; its members are eventName, Keys, NewImage, OldImage"
    ):
        the_decoder("new_image STRUCT<id: STRING>")
