"""What becomes of values and payloads in JSON, where Spark's from_json makes something else of them, and why.

The reasons stand in docs/use/typed-formats.md.
"""

from dataclasses import dataclass
from typing import Any

from tests.typed.json.json_rules import UNFIT

TODAY = "the day on which Spark reads it"
UNREADABLE = "a text of Spark's that no Python worker can read"

TOO_LARGE = "A number that its column can't hold"
NOT_JSON = "What isn't JSON: `NaN`, single quotes"
DIGITS = "A number with more than 1000 digits after the point"
DECIMAL_TEXT = "A text for a decimal with commas or with digits that aren't ASCII"
AS_WRITTEN = "A number or an object in a `STRING` column"
NO_CHARACTER = "Half of a surrogate pair"
BASE64 = "Base64 that goes on after its end"
YEARS = "A time before the year 1 or after the year 9999"
PART_OF_A_DATE = "A date without a day or a month"
NO_DATE = "A time of day without a date"
NOT_A_TIME = "A zero character after a time"
ZONE = "A zone that has a name or seconds"
TWICE = "A name that a map has twice"
MORE = "Text after the object"
UTF8 = "Bytes that aren't UTF-8"


@dataclass(frozen=True, slots=True)
class Difference:
    kind: str
    json: str
    ours: Any
    spark: Any
    why: str


OTHERWISE: list[Difference] = [
    Difference("TINYINT", "128", UNFIT, -128, TOO_LARGE),
    Difference("FLOAT", "3.5e38", UNFIT, "inf", TOO_LARGE),
    Difference("FLOAT", "1e39", UNFIT, "inf", TOO_LARGE),
    Difference("FLOAT", "-1e39", UNFIT, "-inf", TOO_LARGE),
    Difference("DOUBLE", "1e309", UNFIT, "inf", TOO_LARGE),
    Difference("DOUBLE", "-1e400", UNFIT, "-inf", TOO_LARGE),
    Difference("DOUBLE", "NaN", UNFIT, "nan", NOT_JSON),
    Difference("DOUBLE", "Infinity", UNFIT, "inf", NOT_JSON),
    Difference("DOUBLE", "9" * 400, UNFIT, "inf", TOO_LARGE),
    Difference("DOUBLE", "0." + "1" * 1200, 0.1111111111111111, UNFIT, DIGITS),
    Difference("DECIMAL(10,2)", '"1,000"', UNFIT, "1000.00", DECIMAL_TEXT),
    Difference("DECIMAL(10,2)", '"1,50"', UNFIT, "150.00", DECIMAL_TEXT),
    Difference("DECIMAL(10,2)", '"\uff11"', UNFIT, "1.00", DECIMAL_TEXT),
    Difference("STRING", "1.50", "1.50", "1.5", AS_WRITTEN),
    Difference("STRING", "1e5", "1e5", "100000.0", AS_WRITTEN),
    Difference("STRING", '"\\ud83d"', UNFIT, "?", NO_CHARACTER),
    Difference("STRING", "-0", "-0", "0", AS_WRITTEN),
    Difference("STRING", '{"b":"\\u00e9"}', '{"b":"\\u00e9"}', '{"b":"é"}', AS_WRITTEN),
    Difference("BINARY", '"AAE=AAE="', UNFIT, b"\x00\x01\x00\x01", BASE64),
    Difference("DATE", '"2026-01"', UNFIT, "2026-01-01", PART_OF_A_DATE),
    Difference("DATE", '"2026"', UNFIT, "2026-01-01", PART_OF_A_DATE),
    Difference("DATE", '"20260131"', UNFIT, "+57440-05-10", YEARS),
    Difference("DATE", '"0000-01-01"', UNFIT, "0000-01-01", YEARS),
    Difference("DATE", '"10000-01-01"', UNFIT, "+10000-01-01", YEARS),
    Difference("DATE", '"+12026-01-31"', UNFIT, "+12026-01-31", YEARS),
    Difference("DATE", '"-2026-01-31"', UNFIT, "-2026-01-31", YEARS),
    Difference("DATE", '"20000"', UNFIT, "+20000-01-01", YEARS),
    Difference("TIMESTAMP", '"2026-01"', UNFIT, "2026-01-01 00:00:00", PART_OF_A_DATE),
    Difference("TIMESTAMP", '"2026"', UNFIT, "2026-01-01 00:00:00", PART_OF_A_DATE),
    Difference("TIMESTAMP", '"2026-01-31T12:00:00+02:00:30"', UNFIT, "2026-01-31 09:59:30", ZONE),
    Difference("TIMESTAMP", '"2026-01-31T12:00:00 Europe/Berlin"', UNFIT, "2026-01-31 11:00:00", ZONE),
    Difference("TIMESTAMP", '"2026-01-31T12:00:00 GMT+1"', UNFIT, "2026-01-31 11:00:00", ZONE),
    Difference("TIMESTAMP", '"2026-01-31T12:00:00 EST"', UNFIT, "2026-01-31 17:00:00", ZONE),
    Difference("TIMESTAMP", '"10:00"', UNFIT, TODAY, NO_DATE),
    Difference("TIMESTAMP", '"T10"', UNFIT, TODAY, NO_DATE),
    Difference("TIMESTAMP", "1795515072000", UNFIT, "+58867-08-10 10:40:00", YEARS),
    Difference("TIMESTAMP", "-62135596801", UNFIT, "0000-12-31 23:59:59", YEARS),
    Difference("TIMESTAMP", "253402300800", UNFIT, "+10000-01-01 00:00:00", YEARS),
    Difference("TIMESTAMP", "-99999999999", UNFIT, "-1199-02-15 14:13:21", YEARS),
    Difference("TIMESTAMP", "9223372036854775807", UNFIT, "1969-12-31 23:59:59", YEARS),
    Difference("TIMESTAMP", '"0000-12-31T23:59:59Z"', UNFIT, "0000-12-31 23:59:59", YEARS),
    Difference("TIMESTAMP", '"10000-01-01T00:00:00Z"', UNFIT, "+10000-01-01 00:00:00", YEARS),
    Difference("TIMESTAMP", '"+12026-01-31T00:00:00Z"', UNFIT, "+12026-01-31 00:00:00", YEARS),
    Difference("TIMESTAMP", '"0001-01-01T00:00:00+01:00"', UNFIT, "0000-12-31 23:00:00", YEARS),
    Difference("TIMESTAMP", '"9999-12-31T23:59:59-01:00"', UNFIT, "+10000-01-01 00:59:59", YEARS),
    Difference("TIMESTAMP", '"2026-01-31T12:00:00Z\\u0000"', UNFIT, "2026-01-31 12:00:00", NOT_A_TIME),
    Difference("TIMESTAMP_NTZ", '"0000-12-31T23:59:59"', UNFIT, "0000-12-31 23:59:59", YEARS),
    Difference("TIMESTAMP_NTZ", '"10000-01-01T00:00:00"', UNFIT, "+10000-01-01 00:00:00", YEARS),
    Difference("TIMESTAMP_NTZ", '"2026"', UNFIT, "2026-01-01 00:00:00", PART_OF_A_DATE),
    Difference("MAP<STRING,INT>", '{"a":1,"a":2}', [("a", 2)], [("a", 1), ("a", 2)], TWICE),
    Difference("ARRAY<STRUCT<at: TIMESTAMP>>", '[{"at":"10:00"}]', UNFIT, TODAY, NO_DATE),
]
WHOLE_OTHERWISE: list[tuple[bytes, Any, Any, str]] = [
    (b'{"a":1}{"a":2}', UNFIT, (1, None), MORE),
    (b'{"a":1} and more', UNFIT, (1, None), MORE),
    (b'{"a":1},', UNFIT, (1, None), MORE),
    (b"\xff\xfe\x00", UNFIT, UNREADABLE, UTF8),
    (b'{"b":"\xff"}', UNFIT, (None, "�"), UTF8),
    (b'{"c":"\xff"}', UNFIT, (None, None), UTF8),
    (b"{'a':1}", UNFIT, (1, None), NOT_JSON),
    (b'{"a":1}//c', UNFIT, (1, None), MORE),
    (b'{"c":NaN}', UNFIT, (None, None), NOT_JSON),
    (b'{"a":1}\x00', UNFIT, (1, None), MORE),
    (b"\xfe\xff\x00{\x00}", UNFIT, UNREADABLE, UTF8),
    (b'{"b":"\xed\xa0\xbd"}', UNFIT, (None, "�"), UTF8),
    (b'{"b":"\xc0\x80"}', UNFIT, (None, "��"), UTF8),
    (b'{"a":1}\n{"a":2}\n', UNFIT, (1, None), MORE),
]
