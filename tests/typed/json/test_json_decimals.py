"""Numbers that would hold Spark up in a decimal column are found before Spark reads them, and no other ones."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.typed.json.column_types import struct_of
from headrace.pipeline.typed.json.columns import Limits
from headrace.pipeline.typed.json.decimals import TOO_LONG, JsonDecimals
from headrace.pipeline.typed.json.fit import Judge
from headrace.pipeline.typed.json.rules import JsonRules
from headrace.pipeline.typed.json.values import JsonValues

NESTED = {
    "type": "struct",
    "fields": [{"name": "amount", "type": "decimal(10,2)"}, {"name": "other", "type": "double"}],
}
COLUMNS: tuple[tuple[str, Any], ...] = (
    ("amount", "decimal(10,2)"),
    ("text", "string"),
    ("number", "double"),
    ("parts", {"type": "array", "elementType": NESTED}),
    ("tags", {"type": "map", "keyType": "string", "valueType": "decimal(38,0)"}),
)
DECIMALS = JsonDecimals(COLUMNS)
LONG = "1" * 1001


@pytest.mark.parametrize(
    "payload",
    [
        '{"amount": 1e10000}',
        '{"amount": 1E+999999999}',
        '{"amount": -1.5e-999999999}',
        '{"amount": "1e10000"}',
        '{"amount": "1e1,0,0,0,0"}',
        '{"amount": "1e,+,10000"}',
        '{"amount": "1\\u006510000"}',
        '{"amount": "1\\u004510000"}',
        '{"amount": "1e\\u0031\\u0030000"}',
        '{"amount": "1e\\u002b10000"}',
        '{"amount": "1e\uff11\uff10\uff10\uff10\uff10"}',
        '{"\\u0061mount": 1e10000}',
        '{"amount": 1e10000, "amount": 1}',
        f'{{"amount": "{LONG}"}}',
        f'{{"amount": "{LONG[1:]}."}}',
        '{{"amount": "{}"}}'.format("\\u0031" * 1001),
        '{{"amount": "{}"}}'.format("\uff11" * 1001),
        '{"parts": [{"amount": 1}, {"amount": 1e10000}]}',
        '{"tags": {"a": 1, "b": 1e10000}}',
    ],
)
def test_a_number_that_would_hold_spark_up_is_found(payload: str):
    assert DECIMALS.have_too_long(payload.encode())


@pytest.mark.parametrize(
    "payload",
    [
        '{"amount": 1e9999}',
        '{"amount": "1e-9999"}',
        '{"amount": 1e000000000002}',
        '{"number": 1e999999999, "text": "1e999999999", "new": 1e999999999}',
        '{"parts": [{"other": 1e999999999, "amount": 1}], "amount": "12.5"}',
        '{"parts": 1e999999999, "tags": [1e999999999]}',
        '{"tags": {"1e999999999": 1}}',
        f'{{"text": "{LONG}", "number": {LONG}}}',
        f'{{"amount": "{LONG[1:]}"}}',
        "[1e999999999]",
        "1e999999999",
        '"1e999999999"',
        "{}",
    ],
)
def test_other_numbers_and_other_columns_are_left_to_spark(payload: str):
    assert not DECIMALS.have_too_long(payload.encode())


@given(
    number=st.decimals(allow_nan=False, allow_infinity=False) | st.integers(),
    is_text=st.booleans(),
    is_ascii=st.booleans(),
)
def test_a_number_is_found_by_its_exponent_and_its_digits(
    *, number: Decimal | int, is_text: bool, is_ascii: bool
):
    text = str(number)
    payload = json.dumps({"text": "e\\é", "amount": text if is_text else 0}, ensure_ascii=is_ascii)
    exponent = number.as_tuple().exponent if isinstance(number, Decimal) else 0
    payload = payload if is_text else payload.replace('"amount": 0', f'"amount": {text}')
    is_short = len(text) <= 1000 and abs(int(exponent)) + len(text) <= 9999
    assert not (is_short and DECIMALS.have_too_long(payload.encode()))
    assert not JsonDecimals(COLUMNS[1:3]).have_too_long(payload.encode())


def test_such_a_payload_goes_to_quarantine_also_where_payloads_make_columns():
    judge = Judge(struct_of(COLUMNS), Limits(50), is_whole=True)
    rules = JsonRules(JsonValues(COLUMNS, 1000), judge)
    assert rules.why_not(b'{"amount": 1e999999999}') == TOO_LONG
    assert JsonRules(JsonValues(COLUMNS, 1000)).why_not(b'{"amount": "1e999999999"}') == TOO_LONG
    deep = b'{"new": ' + b"[" * 1200 + b"]" * 1200 + b', "amount": 1e999999999}'
    assert rules.why_not(deep) is not None
