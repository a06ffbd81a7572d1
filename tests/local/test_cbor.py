"""The CBOR codec: botocore reads what the codec writes, the codec reads every valid form, and hostile bytes are refused
cheaply."""

from __future__ import annotations

import io
import struct
import tracemalloc

import pytest
from botocore.parsers import RpcV2CBORParser
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.encoding.cbor import NotCborError, Raw, Tagged, decoded, encoded, head

INTEGERS = st.integers(min_value=-(1 << 64), max_value=(1 << 64) - 1)
SIMPLE = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)

FIRST_BYTES = bytes.fromhex("00 1b 20 40 42 5f 60 62 7f 81 9f a1 bf c1 f6 f9 fb ff")
"""A first byte of each kind of value, and the byte that ends a value of indefinite length."""


def read_by_botocore(body):
    return RpcV2CBORParser().parse_data_item(io.BufferedReader(io.BytesIO(body)))


def without_none(value):
    """The value without the keys whose value is None, which botocore leaves out."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


@given(VALUES)
def test_a_written_value_is_read_back(value):
    assert decoded(encoded(value)) == value


@given(VALUES)
def test_another_library_reads_a_written_value(value):
    assert read_by_botocore(encoded(value)) == without_none(value)


@given(st.binary(max_size=200) | st.lists(st.sampled_from(FIRST_BYTES), max_size=12).map(bytes))
def test_any_bytes_are_either_read_or_refused(body):
    try:
        value = decoded(body)
    except NotCborError as refused:
        assert str(refused)  # noqa: PT017 - some inputs are read, others refused
    else:
        assert repr(decoded(encoded(value))) == repr(value)  # as text, since a float may be NaN


@given(VALUES, st.data())
def test_a_cut_value_is_refused(value, data):
    body = encoded(value)
    with pytest.raises(NotCborError):
        decoded(body[: data.draw(st.integers(0, len(body) - 1))])


# The RFC's own examples, appendix A.
@pytest.mark.parametrize(("spelled", "value"), [
    ("17", 23), ("1818", 24), ("1903e8", 1000), ("1a000f4240", 1_000_000), ("1b000000e8d4a51000", 10**12),
    ("1bffffffffffffffff", (1 << 64) - 1), ("3bffffffffffffffff", -(1 << 64)), ("3903e7", -1000),
    ("f90000", 0.0), ("f93e00", 1.5), ("fa47c35000", 100_000.0), ("fb3ff199999999999a", 1.1),
    ("f4", False), ("f5", True), ("f6", None), ("f7", None),
    ("c11a514b67b0", Tagged(1, 1_363_896_240)), ("4401020304", b"\1\2\3\4"), ("62c3bc", "ü"),
    ("80", []), ("8301820203820405", [1, [2, 3], [4, 5]]), ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("5f42010243030405ff", b"\1\2\3\4\5"), ("7f657374726561646d696e67ff", "streaming"), ("9fff", []),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]), ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
])  # fmt: skip
def test_every_form_of_the_rfcs_examples_is_read(spelled, value):
    assert decoded(bytes.fromhex(spelled)) == value


@pytest.mark.parametrize("number", [0, 23, 24, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 64) - 1])
def test_a_length_takes_the_shortest_form(number):
    sizes = {1: range(24), 2: range(256), 3: range(1 << 16), 5: range(1 << 32)}
    assert len(head(2, number)) == next((size for size, fits in sizes.items() if number in fits), 9)
    assert decoded(head(0, number)) == number


def test_tags_and_parts_that_are_encoded_already_are_written():
    assert encoded({"at": Tagged(1, 1_700_000_000_123), "x": Raw(b"\x81\x01")}) == bytes.fromhex(
        "a2626174c11b0000018bcfe5687b61788101"
    )


def test_a_value_that_cannot_be_written_is_an_error_at_once():
    with pytest.raises(TypeError, match="set"):
        encoded({"x": {1, 2}})
    with pytest.raises(OverflowError):
        encoded(1 << 64)


@pytest.mark.parametrize(("body", "why"), [
    (b"", "0 bytes follow"),
    (b"\x01\x01", "1 bytes follow the value"),
    (b"\x5b" + b"\xff" * 8, "announced"),  # 2^64 - 1 bytes
    (b"\x9b\x7f" + b"\xff" * 7, "announced"),  # a list of 2^63 - 1
    (b"\xba\xff\xff\xff\xff", "announced"),
    (b"\xa1\x01\x02", "key is int"),
    (b"\xa1\x61k", "0 bytes follow"),
    (b"\x62\xff\xfe", "UTF-8"),
    (b"\x63\xed\xa0\x80", "UTF-8"),  # half of a surrogate pair
    (b"\x1c", "28 spell no length"),
    (b"\xdf\x01", "indefinite"),
    (b"\x1f", "indefinite"),
    (b"\xff", "31 spell no simple value"),  # a break without a beginning
    (b"\xf8\xff", "24 spell no simple value"),
    (b"\x9f\x01", "0 bytes follow"),
    (b"\x7f\x41x\xff", "another kind"),
    (b"\x5f\x5f\x41x\xff\xff", "another kind"),
    (b"\x81" * 40 + b"\x01", "nested"),
    (b"\x9f" * 40, "nested"),
    (b"\xa1\x61k" * 40 + b"\x01", "nested"),
    (b"\xc1" * 40 + b"\x01", "nested"),
    (b"\x81" * 200_000, "nested"),
])  # fmt: skip
def test_hostile_bytes_are_refused(body, why):
    with pytest.raises(NotCborError, match=why):
        decoded(body)


def test_an_announced_size_takes_no_memory_before_the_bytes_have_come():
    tracemalloc.start()
    try:
        for lead in (b"\x5a", b"\x7a", b"\x9a", b"\xba"):
            with pytest.raises(NotCborError):
                decoded(lead + struct.pack(">I", 1 << 31) + b"\x00" * 1000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_record_at_the_size_limit_is_read():
    data = b"x" * (10 * 1024 * 1024)
    assert decoded(encoded({"Data": data})) == {"Data": data}
