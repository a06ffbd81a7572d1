"""Which payloads are one JSON value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.typed.json.text import NO_OBJECT, NO_TEXT, why_no_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


@given(value=VALUES, is_ascii=st.booleans(), space=st.sampled_from(["", " ", "\n\t "]))
def test_a_value_is_json_with_and_without_space_around_it(value: object, *, is_ascii: bool, space: str):
    try:
        payload = f"{space}{json.dumps(value, ensure_ascii=is_ascii)}{space}".encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return
    assert why_no_json(payload) is None


@given(VALUES, VALUES)
def test_two_objects_in_one_payload_arent_json(one: object, other: object):
    payload = json.dumps({"a": one}) + json.dumps({"a": other})
    assert why_no_json(payload.encode()) == NO_OBJECT


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", NO_OBJECT),
        (None, NO_OBJECT),
        (b'{"a": 1', NO_OBJECT),
        (b'{"a": 1} x', NO_OBJECT),
        (b"{'a': 1}", NO_OBJECT),
        (b'{"a": NaN}', NO_OBJECT),
        (b'{"a": 01}', NO_OBJECT),
        (b"[" * 1_000_000, NO_OBJECT),
        (b'{"a": "\xff"}', NO_TEXT),
        (b"\xff", NO_TEXT),
    ],
)
def test_what_isnt_one_json_value_has_a_reason(payload: bytes | None, why: str):
    assert why_no_json(payload) == why


@given(st.binary(max_size=100))
def test_any_bytes_are_judged(payload: bytes):
    why_no_json(payload)
