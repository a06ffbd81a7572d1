"""Payloads of Avro and Protobuf that are decoded many at once become the same rows, and have the same reasons, as one by one in the library."""

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.typed.formats.avro import AvroDecoder, _parsed
from headrace.pipeline.typed.formats.avro_columns import record_part
from headrace.pipeline.typed.formats.lanes import FEWEST, Payloads
from headrace.pipeline.typed.formats.protobuf import _TIMESTAMP, _WRAPPED, ProtobufDecoder
from headrace.pipeline.typed.formats.protobuf_columns import MessageKinds
from headrace.pipeline.typed.formats.rows import row_by_row
from headrace.pipeline.typed.formats.side_by_side import side_by_side
from tests.typed.formats.decodings import arrow_of, reasons_of
from tests.typed.formats.test_decode_avro import SCHEMA, written
from tests.typed.formats.test_decode_protobuf import CONTENT, DESCRIPTORS, an_order

AVRO_FIELDS = [
    *SCHEMA["fields"],
    {"name": "ratio", "type": "float"},
    {"name": "score", "type": ["double", "null"]},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {
        "name": "price",
        "type": {
            "type": "fixed",
            "name": "Price",
            "size": 6,
            "logicalType": "decimal",
            "precision": 12,
            "scale": 3,
        },
    },
    {"name": "lists", "type": {"type": "array", "items": {"type": "array", "items": ["null", "int"]}}},
    {"name": "named", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
    {"name": "raw", "type": ["null", "bytes"]},
]
AVRO = {**SCHEMA, "fields": AVRO_FIELDS}
AVRO_DECODER = AvroDecoder("orders", json.dumps(AVRO), is_single_object=False)
SINGLE = AvroDecoder("orders", json.dumps(AVRO), is_single_object=True)
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)
ITEM = st.fixed_dictionaries({"sku": st.text(max_size=4), "n": INT})
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 - hypothesis wants none
AVRO_ROWS = st.fixed_dictionaries(
    {
        "number": LONG,
        "customer": st.none() | st.text(max_size=5),
        "at": MOMENTS.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)),
        "day": st.dates(),
        "amount": st.decimals(-(10**7), 10**7, places=2),
        "state": st.sampled_from(["OPEN", "PAID"]),
        "items": st.lists(ITEM, max_size=3),
        "first": st.none() | ITEM,
        "tags": st.dictionaries(st.text(max_size=3), st.floats(), max_size=3),
        "token": st.just("0b1c8f9e-5a4b-4d57-9a43-8a4d9c6e2f10"),
        "hash": st.binary(min_size=4, max_size=4),
        "is_new": st.booleans(),
        "ratio": st.floats(width=32),
        "score": st.none() | st.floats(),
        "local": MOMENTS,
        "price": st.decimals(-(10**8), 10**8, places=3),
        "lists": st.lists(st.lists(st.none() | INT, max_size=2), max_size=2),
        "named": st.dictionaries(st.text(max_size=2), st.lists(st.text(max_size=2), max_size=2), max_size=2),
        "raw": st.none() | st.binary(max_size=3),
    }
)


@st.composite
def damaged(draw: st.DrawFn, payloads: st.SearchStrategy[bytes]) -> bytes:
    """A payload, of which some bytes may be others, missing, or too many."""
    payload = bytearray(draw(payloads))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(payload)))
        match draw(st.sampled_from(["set", "cut", "insert", "end"])):
            case "set" if place < len(payload):
                payload[place] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
            case "cut":
                del payload[place : place + 1]
            case "insert":
                payload.insert(place, draw(st.integers(0, 255)))
            case _:
                del payload[place:]
    return bytes(payload)


def in_order(value: Any) -> Any:
    """A map has no order, and not-a-number isn't equal to itself."""
    match value:
        case dict():
            return {name: in_order(part) for name, part in value.items()}
        case [(str() | int(), _), *_]:
            return sorted(repr(in_order(part)) for part in value)
        case list() | tuple():
            return [in_order(part) for part in value]
        case float():
            return repr(value)
        case _:
            return value


def are_the_same(decoder: Any, payloads: Sequence[bytes]) -> None:
    columns = list(arrow_of(decoder))
    by_library = row_by_row(decoder._decode(), decoder.most_values, columns)
    expected = [
        made for rows, reasons in by_library(payloads) for made in zip(rows.to_pylist(), reasons, strict=True)
    ]
    many = [payload for payload in payloads for _ in range(FEWEST + 1)]
    found = [
        made
        for rows, reasons in decoder.reading(columns)(many)
        for made in zip(rows.to_pylist(), reasons, strict=True)
    ]
    assert in_order(found[:: FEWEST + 1]) == in_order(expected)
    assert in_order(found[FEWEST :: FEWEST + 1]) == in_order(expected)


@given(st.lists(damaged(AVRO_ROWS.map(lambda row: written(row, AVRO))), min_size=1, max_size=4))
def test_avro_payloads_become_the_same_as_in_the_library(payloads: list[bytes]):
    are_the_same(AVRO_DECODER, payloads)


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4))
def test_any_bytes_become_the_same_as_in_the_library(payloads: list[bytes]):
    for decoder in (AVRO_DECODER, SINGLE, PROTOBUF_DECODER, ORDERS):
        are_the_same(decoder, payloads)


PROTO = """
name: "lanes.proto" package: "lanes" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/wrappers.proto"
enum_type { name: "State" value { name: "OPEN" number: 0 } value { name: "PAID" number: 1 } value { name: "FAR" number: 7 } }
message_type {
  name: "Part"
  field { name: "text" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "small" number: 2 type: TYPE_SINT32 label: LABEL_OPTIONAL }
  field { name: "states" number: 3 type: TYPE_ENUM type_name: ".lanes.State" label: LABEL_REPEATED }
}
message_type {
  name: "All"
  field { name: "i32" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "i64" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "u32" number: 3 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "u64" number: 4 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "s64" number: 5 type: TYPE_SINT64 label: LABEL_OPTIONAL }
  field { name: "f32" number: 6 type: TYPE_FIXED32 label: LABEL_OPTIONAL }
  field { name: "f64" number: 7 type: TYPE_FIXED64 label: LABEL_OPTIONAL }
  field { name: "sf32" number: 8 type: TYPE_SFIXED32 label: LABEL_OPTIONAL }
  field { name: "sf64" number: 9 type: TYPE_SFIXED64 label: LABEL_OPTIONAL }
  field { name: "float" number: 10 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "double" number: 11 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "is_so" number: 12 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "state" number: 13 type: TYPE_ENUM type_name: ".lanes.State" label: LABEL_OPTIONAL }
  field { name: "text" number: 14 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "raw" number: 15 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "at" number: 16 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "score" number: 17 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" label: LABEL_OPTIONAL }
  field { name: "part" number: 18 type: TYPE_MESSAGE type_name: ".lanes.Part" label: LABEL_OPTIONAL }
  field { name: "parts" number: 19 type: TYPE_MESSAGE type_name: ".lanes.Part" label: LABEL_REPEATED }
  field { name: "numbers" number: 20 type: TYPE_UINT32 label: LABEL_REPEATED }
  field { name: "reals" number: 21 type: TYPE_DOUBLE label: LABEL_REPEATED options { packed: false } }
  field { name: "texts" number: 22 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "one" number: 23 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "other" number: 24 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "maybe" number: 25 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 1 proto3_optional: true }
  field { name: "tags" number: 26 type: TYPE_MESSAGE type_name: ".lanes.All.TagsEntry" label: LABEL_REPEATED }
  field { name: "times" number: 27 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_REPEATED }
  nested_type {
    name: "TagsEntry"
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
  oneof_decl { name: "choice" }
  oneof_decl { name: "_maybe" }
}
"""
POOL = DescriptorPool()
for _file in DESCRIPTORS.file:
    POOL.Add(_file)
POOL.Add(text_format.Parse(PROTO, FileDescriptorProto()))
DESCRIPTOR = POOL.FindMessageTypeByName("lanes.All")
ALL: Any = GetMessageClass(DESCRIPTOR)
_FILES = type(DESCRIPTORS)(file=[*DESCRIPTORS.file, text_format.Parse(PROTO, FileDescriptorProto())])
PROTOBUF_DECODER = ProtobufDecoder("all", b64encode(_FILES.SerializeToString()).decode(), "lanes.All")
ORDERS = ProtobufDecoder("orders", CONTENT, "shop.Order")
STATES = st.sampled_from([0, 1, 7, 3])
PART = st.fixed_dictionaries(
    {}, optional={"text": st.text(max_size=3), "small": INT, "states": st.lists(STATES, max_size=2)}
)
UNSIGNED = st.integers(0, 2**32 - 1)
MOMENT = st.fixed_dictionaries({"seconds": st.integers(-(10**6), 2**33), "nanos": st.integers(0, 10**9)})
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("i32", "sf32", "maybe"), INT),
        **dict.fromkeys(("i64", "s64", "sf64"), LONG),
        **dict.fromkeys(("u32", "f32"), UNSIGNED),
        **dict.fromkeys(("u64", "f64"), st.integers(0, 2**64 - 1)),
        "float": st.floats(width=32),
        "double": st.floats(),
        "is_so": st.booleans(),
        "state": STATES,
        "text": st.text(max_size=4),
        "raw": st.binary(max_size=4),
        "at": MOMENT,
        "score": st.fixed_dictionaries({"value": LONG}),
        "part": PART,
        "parts": st.lists(PART, max_size=2),
        "numbers": st.lists(UNSIGNED, max_size=3),
        "reals": st.lists(st.floats(), max_size=2),
        "texts": st.lists(st.text(max_size=2), max_size=2),
        "one": INT,
        "tags": st.dictionaries(st.text(max_size=2), INT, max_size=2),
        "times": st.lists(MOMENT, max_size=2),
    },
)


@given(
    st.lists(
        damaged(MESSAGES.map(lambda fields: ALL(**fields).SerializeToString(deterministic=True))),
        min_size=1,
        max_size=4,
    )
)
def test_protobuf_payloads_become_the_same_as_in_the_library(payloads: list[bytes]):
    are_the_same(PROTOBUF_DECODER, payloads)


@given(
    st.lists(
        st.lists(MESSAGES, min_size=2, max_size=3).map(
            lambda parts: b"".join(ALL(**part).SerializeToString(deterministic=True) for part in parts)
        ),
        min_size=1,
        max_size=3,
    )
)
def test_messages_in_pieces_become_the_same_as_in_the_library(payloads: list[bytes]):
    """Fields come twice, in any order, and messages within the message are merged."""
    are_the_same(PROTOBUF_DECODER, payloads)


PLAIN = [
    {"name": "flag", "type": "boolean"},
    {"name": "n", "type": "int"},
    {"name": "text", "type": "string"},
    {"name": "maybe", "type": ["null", "long"]},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
    {"name": "list", "type": {"type": "array", "items": "int"}},
    {"name": "tags", "type": {"type": "map", "values": "int"}},
]
_HEAD = b"\1\2\2a\0\2\2\2\2\x64"
_FAR = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1"


@pytest.mark.parametrize(
    "payload",
    [
        _HEAD + b"\0\0",
        _HEAD + b"\0\0\0",
        _HEAD + b"\0",
        b"\2" + _HEAD[1:] + b"\0\0",
        b"\1" + _FAR + _HEAD[2:] + b"\0\0",
        b"\1\2\x20a" + _HEAD[4:] + b"\0\0",
        b"\1\2\1" + _HEAD[4:] + b"\0\0",
        b"\1\2\2\xff" + _HEAD[4:] + b"\0\0",
        _HEAD[:4] + b"\4" + _HEAD[5:] + b"\0\0",
        _HEAD[:4] + b"\2" + _FAR + _HEAD[5:] + b"\0\0",
        _HEAD[:5] + b"\4" + _HEAD[6:] + b"\0\0",
        _HEAD[:6] + b"\xfe\xff\xff\xff\x0f" + _HEAD[7:] + b"\0\0",
        _HEAD[:7] + _FAR + _HEAD[8:] + b"\0\0",
        _HEAD[:8] + b"\4\x27\x10" + b"\0\0",
        _HEAD[:8] + b"\4\x27\x0f" + b"\0\0",
        _HEAD[:8] + b"\4\xd8\xf1" + b"\0\0",
        _HEAD[:8] + b"\0" + b"\0\0",
        _HEAD[:8] + b"\x24" + b"\xff" * 18 + b"\0\0",
        _HEAD + b"\4\2\4\2\6\0\0",
        _HEAD + b"\3\4\2\4\0\0",
        _HEAD + b"\x40\2\4\0\0",
        _HEAD + b"\0\4\2a\2\2b\4\0",
        _HEAD + b"\0\4\2a\2\2a\4\0",
        _HEAD + b"\0\2\2\xff\2\0",
    ],
)
def test_a_payload_that_isnt_as_the_schema_says_is_judged_by_the_library(payload: bytes):
    schema = {"type": "record", "name": "R", "fields": PLAIN}
    decoder = AvroDecoder("orders", json.dumps(schema), is_single_object=False)
    usual = _HEAD + b"\2\2\0\2\2a\2\0"
    are_the_same(decoder, [usual, payload, usual])


_TAG = {name: field.number << 3 for name, field in DESCRIPTOR.fields_by_name.items()}


def _field(name: str, form: int, content: bytes) -> bytes:
    tag = _TAG[name] | form
    return (bytes([tag & 0x7F | 0x80, tag >> 7]) if tag >= 0x80 else bytes([tag])) + content


@pytest.mark.parametrize(
    "payload",
    [
        _field("i32", 0, b"\1") * 2,
        _field("text", 2, b"\1a") + _field("text", 2, b"\1b"),
        _field("one", 0, b"\1") + _field("other", 2, b"\1a"),
        _field("other", 2, b"\1a") + _field("one", 0, b"\1"),
        _field("part", 2, b"\3\x0a\1a") + _field("part", 2, b"\2\x10\2"),
        _field("numbers", 0, b"\1") + _field("numbers", 2, b"\2\2\3"),
        _field("reals", 2, b"\x08" + bytes(8)) + _field("reals", 1, bytes(8)),
        _field("i32", 2, b"\1\1"),
        _field("i32", 0, b"\xff" * 9 + b"\1"),
        _field("i32", 0, b"\xff\xff\xff\xff\x1f"),
        _field("i64", 0, b"\xff" * 9 + b"\1"),
        _field("i64", 0, b"\xff" * 9 + b"\2"),
        _field("i64", 0, b"\xff" * 10 + b"\1"),
        _field("u64", 0, b"\xff" * 9 + b"\1"),
        _field("u32", 0, b"\xff" * 9 + b"\1"),
        _field("is_so", 0, b"\2"),
        _field("state", 0, b"\3"),
        _field("state", 0, b"\7"),
        _field("text", 2, b"\1\xff"),
        _field("text", 2, b"\5a"),
        _field("raw", 2, b"\xff\xff\xff\xff\7a"),
        _field("at", 2, b"\6\x10\x80\x94\xeb\xdc\3"),
        _field("at", 2, b"\x0b\x08" + b"\xff" * 9 + b"\1"),
        _field("at", 2, b"\x07\x08\xff\xff\xff\xff\xff\x7f"),
        _field("score", 2, b"\0"),
        _field("tags", 2, b"\3\x0a\1a") + _field("tags", 2, b"\5\x0a\1a\x10\2"),
        _field("tags", 2, b"\0"),
        b"\xf8\7\1\xfa\7\1a\xfd\7abcd\xf9\7abcdefgh",
        b"\xfb\7\xfc\7",
        b"\0\1",
        b"\x88\0\1",
        b"\x88\x80\x80\x80\x80\0\1",
        b"\xfe\7",
        _field("part", 2, b"\4\x0a\1a"),
        _field("part", 2, b"\3\x0a\2a") + b"a",
    ],
)
def test_a_message_that_isnt_as_others_are_is_judged_by_the_library(payload: bytes):
    usual = _field("i32", 0, b"\1") + _field("text", 2, b"\1a")
    are_the_same(PROTOBUF_DECODER, [usual, payload, usual])


def test_usual_payloads_arent_left_to_the_library():
    row = {
        "number": 7,
        "customer": "Zoë",
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "amount": Decimal("-12.50"),
        "state": "PAID",
        "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": -1}],
        "first": {"sku": "a", "n": 2},
        "tags": {"k": 0.5},
        "token": "t",
        "hash": b"\x00\xff12",
        "is_new": True,
        "ratio": 0.5,
        "score": None,
        "local": datetime(2026, 1, 31, 12),  # noqa: DTZ001 - it has none
        "price": Decimal("1.234"),
        "lists": [[1, None], []],
        "named": {"n": ["a"]},
        "raw": b"raw",
    }
    avro = Payloads([written(row, AVRO)] * 300, b"")
    record = record_part(*_parsed(json.dumps(AVRO)), list(arrow_of(AVRO_DECODER)))
    found = record(avro, np.arange(300))
    assert not avro.is_left.any()
    assert (avro.place == avro.end).all()
    made = {**row, "tags": [("k", 0.5)], "named": [("n", ["a"])], "at": row["at"]}
    assert found[299].as_py() == made
    part = {"text": "é", "small": -1, "states": [1, 0]}
    fields = {
        "i32": 1,
        "u64": 2**60,
        "f64": 2**63 - 1,
        "s64": -1,
        "double": 0.5,
        "state": 1,
        "text": "Zoë",
        "raw": b"raw",
        "at": {"seconds": 1, "nanos": 5000},
        "score": {"value": 5},
        "part": part,
        "parts": [part, {}],
        "numbers": [1, 300],
        "reals": [0.5, 1.5],
        "other": "x",
        "tags": {"a": 1},
    }
    protobuf = Payloads([ALL(**fields).SerializeToString()] * 300, b"")
    kinds = MessageKinds(_TIMESTAMP, frozenset(_WRAPPED))
    messages = kinds.message(DESCRIPTOR, list(arrow_of(PROTOBUF_DECODER)))(protobuf, np.arange(300))
    assert not protobuf.is_left.any()
    row = messages[299].as_py()
    assert (row["state"], row["parts"][1], row["other"], row["maybe"]) == (
        "PAID",
        {"text": "", "small": 0, "states": []},
        "x",
        None,
    )


def test_one_payload_that_is_left_costs_no_other_one():
    good = written({**dict.fromkeys(("number",), 1)}, {**AVRO, "fields": AVRO_FIELDS[:1]})
    decoder = AvroDecoder("orders", json.dumps({**AVRO, "fields": AVRO_FIELDS[:1]}), is_single_object=False)
    reasons = reasons_of(decoder, [good] * 500 + [b""] + [good] * 500)
    assert [place for place, why in enumerate(reasons) if why] == [500]


def test_an_error_of_a_step_leaves_all_its_payloads_to_the_library():
    def fails(_payloads: list[bytes]) -> Any:
        raise OverflowError

    columns = list(arrow_of(ORDERS))
    library = row_by_row(ORDERS._decode(), ORDERS.most_values, columns)
    payloads = [an_order(), b"?"] * FEWEST
    read = side_by_side(fails, library, a_byte=1, most=ORDERS.most_values)
    assert [why for _, reasons in read(payloads) for why in reasons] == [
        why for _, reasons in library(payloads) for why in reasons
    ]


@pytest.mark.parametrize("count", [1, FEWEST - 1, FEWEST, 3 * FEWEST])
def test_as_many_rows_come_back_as_payloads_are_given(count: int):
    for decoder, payload in ((ORDERS, an_order()), (PROTOBUF_DECODER, b""), (AVRO_DECODER, b"?")):
        read = decoder.reading(list(arrow_of(decoder)))
        parts = list(read([payload, None] * count))
        assert sum(len(rows) for rows, _ in parts) == 2 * count == sum(len(reasons) for _, reasons in parts)
        assert all(row is None for rows, _ in parts for row in rows.to_pylist()[1::2])
