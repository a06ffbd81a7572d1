"""A small payload that would become very many values costs itself only: it goes to quarantine before the values are made."""

import json
import tracemalloc
import zlib
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.typed.formats.avro import AvroDecoder, RegistryAvroDecoder, _parsed
from headrace.pipeline.typed.formats.avro_values import AvroValues
from headrace.pipeline.typed.formats.decoder import Decoder
from headrace.pipeline.typed.formats.protobuf import ProtobufDecoder
from headrace.pipeline.typed.formats.protobuf_values import limit_of
from headrace.pipeline.typed.formats.registry_header import of_confluent
from headrace.pipeline.typed.formats.value_limit import TooManyValues
from headrace.pipeline.typed.json.columns import Limits
from headrace.pipeline.typed.json.decode import JsonDecoder
from headrace.pipeline.typed.json.task_facts import Looking, facts_in
from headrace.pipeline.typed.json.values import JsonValues
from tests.typed.formats.decodings import arrow_of, landed, parts_of, rows_of
from tests.typed.formats.test_decode_avro import ROW, SCHEMA, written
from tests.typed.formats.test_decode_protobuf import DECODER, DESCRIPTORS, an_order
from tests.typed.formats.test_registry_header import GLUE

MOST = 10_000
TOO_MANY = "the payload makes more than 10000 values (most_values)"
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "x", "type": ["null", "long"]}]}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


ITEMS = record({"name": "items", "type": {"type": "array", "items": ITEM}})


def avro(schema: Any) -> AvroDecoder:
    return AvroDecoder("orders", json.dumps(schema), is_single_object=False, most_values=MOST)


def integer(number: int) -> bytes:
    """As Avro has it."""
    number, found = number * 2, bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def decoded_with_peak(decoder: Decoder, payloads: Sequence[bytes]) -> tuple[list[dict[str, Any]], int]:
    tracemalloc.start()
    try:
        return rows_of(decoder, payloads), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_megabyte_of_avro_records_of_one_byte_each_goes_to_quarantine_before_they_are_made():
    small = written({"items": [{"x": None}, {"x": 7}]}, ITEMS)
    hostile = integer(1_000_000) + bytes(1_000_001)
    in_blocks = (integer(1_000) + bytes(1_000)) * 1_000 + b"\0"
    rows, peak = decoded_with_peak(avro(ITEMS), [small, hostile, in_blocks, small])
    assert [row["reason"] for row in rows] == [None, TOO_MANY, TOO_MANY, None]
    assert rows[0]["row"] == {"items": [{"x": None}, {"x": 7}]}
    assert peak < 50_000_000, "the payloads themselves take a few megabytes"


def test_payloads_below_the_limit_arent_decoded_all_at_once():
    # Each record makes two values: 4,900 of them are below the limit, and three such payloads above it.
    below = integer(4_900) + bytes(4_901)
    parts = list(parts_of(avro(ITEMS), [below] * 7))
    assert [part.num_rows for part in parts] == [2, 2, 2, 1]
    assert {reason for part in parts for reason in part["reason"].to_pylist()} == {None}


def test_compressed_payloads_count_as_what_they_inflate_to():
    text = record({"name": "text", "type": "string"})
    header, long = UUID(int=7), written({"text": "a" * 600_000}, text)
    decoder = RegistryAvroDecoder(avro(text), GLUE, {str(header): json.dumps(text)})
    payload = b"\3\5" + header.bytes + zlib.compress(long)
    assert [part.num_rows for part in parts_of(decoder, [payload] * 5)] == [2, 2, 1]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": {"type": "array", "items": "long"}},
        {"type": "map", "values": ["null", "int"]},
        {"type": "array", "items": {"type": "map", "values": "string"}},
        {"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 5}},
    ],
)
def test_many_values_of_any_kind_are_too_many(kind: Any):
    decoder = avro(record({"name": "many", "type": kind}))
    (row,) = rows_of(decoder, [integer(50_000) + bytes(100_001)])
    assert row["reason"] == TOO_MANY


def test_a_record_for_which_the_readers_schema_has_many_defaults_counts_with_them():
    wide = {
        **ITEM,
        "fields": [
            {"name": "x", "type": ["null", "long"]},
            *({"name": f"more{number}", "type": "int", "default": 0} for number in range(100)),
        ],
    }
    reader = avro(record({"name": "items", "type": {"type": "array", "items": wide}}))
    decoder = RegistryAvroDecoder(reader, of_confluent, {"7": json.dumps(ITEMS)})
    header = b"\0\0\0\0\7"
    rows = rows_of(decoder, [header + integer(n) + bytes(n + 1) for n in (50, 90, 110, 5_000)])
    assert [row["reason"] for row in rows] == [None, None, TOO_MANY, TOO_MANY]


def test_an_integer_that_is_longer_than_avros_is_no_way_around_the_count():
    long = b"\x80" * 12 + b"\x01"
    (row,) = rows_of(avro(ITEMS), [long + bytes(20_000)])
    assert row["row"] is None


def _count(schema: Any, payload: bytes, most: int = 10**9) -> tuple[int, float]:
    parsed, named = _parsed(json.dumps(schema))
    values = AvroValues(parsed, named)
    limit, empty = values.limit(most), values._bound(parsed, ()).values
    return values.count(payload, most), empty + limit.a_byte * len(payload)


def test_the_count_of_an_avro_payload_is_that_of_its_values():
    # The record; number, customer, at, day, amount, state; items: a list of two records of two; first: a record of two; tags: a map with an
    # entry; token, hash, is_new.
    assert _count(SCHEMA, written(ROW))[0] == 1 + 6 + (1 + 2 * 3) + 3 + 3 + 3


ROWS = st.fixed_dictionaries(
    {
        "number": st.integers(-(2**60), 2**60),
        "items": st.lists(st.fixed_dictionaries({"sku": st.text(max_size=3), "n": st.integers(-9, 9)})),
        "tags": st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False)),
        "customer": st.none() | st.text(max_size=3),
    }
)


@given(ROWS)
def test_the_count_never_exceeds_what_the_schema_allows_for_so_many_bytes(row: dict[str, Any]):
    count, at_most = _count(SCHEMA, written({**ROW, **row}))
    assert count <= at_most
    assert count == 1 + 5 + 1 + (1 + 3 * len(row["items"])) + 3 + (1 + 2 * len(row["tags"])) + 3


WIDE = """
name: "wide.proto" package: "shop" syntax: "proto3"
message_type { name: "Wide" FIELDS }
message_type {
  name: "Many"
  field { name: "wide" number: 1 type: TYPE_MESSAGE type_name: ".shop.Wide" label: LABEL_REPEATED }
  field { name: "numbers" number: 2 type: TYPE_INT64 label: LABEL_REPEATED }
  field { name: "texts" number: 3 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "entries" number: 4 type: TYPE_MESSAGE type_name: ".shop.Many.EntriesEntry" label: LABEL_REPEATED }
  nested_type {
    name: "EntriesEntry"
    field { name: "key" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shop.Wide" label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
}
"""
FIELDS = " ".join(
    f'field {{ name: "f{n}" number: {n} type: TYPE_INT64 label: LABEL_OPTIONAL }}' for n in range(1, 51)
)


def _many() -> tuple[ProtobufDecoder, Any, Any]:
    files = FileDescriptorSet(file=[text_format.Parse(WIDE.replace("FIELDS", FIELDS), FileDescriptorProto())])
    pool = DescriptorPool()
    pool.Add(files.file[0])
    descriptor = pool.FindMessageTypeByName("shop.Many")
    content = b64encode(files.SerializeToString()).decode()
    return (
        ProtobufDecoder("orders", content, "shop.Many", most_values=MOST),
        GetMessageClass(descriptor),
        descriptor,
    )


PROTOBUF, MANY, MANY_DESCRIPTOR = _many()


def test_empty_protobuf_messages_with_many_fields_go_to_quarantine_before_they_are_made():
    small = MANY(numbers=[1, 2**40], texts=["", "a"])
    small.wide.add(f1=1)
    small.entries[5].f2 = 2
    # Each empty message takes two bytes, and makes fifty values.
    rows, peak = decoded_with_peak(
        PROTOBUF,
        [
            small.SerializeToString(),
            b"\x0a\0" * 500_000,
            b"\x22\0" * 500_000,
            b"\x12\x83\xea\x30" + bytes(800_003),
            b"\x1a\0" * 50_000,
            small.SerializeToString(),
        ],
    )
    assert [row["reason"] for row in rows] == [None, *[TOO_MANY] * 4, None]
    assert peak < 50_000_000


@given(
    st.integers(0, 5),
    st.integers(0, 5),
    st.lists(st.integers(-5, 2**40), max_size=9),
    st.lists(st.text(max_size=2)),
)
def test_the_count_of_a_protobuf_message_is_that_of_its_values(
    wide: int, entries: int, numbers: list[int], texts: list[str]
):
    message = MANY(numbers=numbers, texts=texts)
    for number in range(wide):
        message.wide.add(f3=number)
    for number in range(entries):
        message.entries[number].f4 = number
    payload, limit = message.SerializeToString(), limit_of(MANY_DESCRIPTOR, (), 10**9)
    values = 5 + 51 * wide + (2 + 51) * entries + len(numbers) + len(texts)
    assert limit.count(payload, 10**9) == values <= 5 + limit.a_byte * len(payload)


@given(st.binary(max_size=300))
def test_any_bytes_are_counted_or_refused(payload: bytes):
    pool = DescriptorPool()
    for file in DESCRIPTORS.file:
        pool.Add(file)
    for decoder in (
        limit_of(pool.FindMessageTypeByName("shop.Order"), (), 50),
        limit_of(MANY_DESCRIPTOR, (), 50),
    ):
        with suppress(TooManyValues):
            assert decoder.count(payload, 50) <= 50


def test_payloads_of_other_tests_are_far_below_the_default():
    assert DECODER._decode()(an_order())[1] < 0.01


COLUMNS: tuple[tuple[str, Any], ...] = (
    (
        "items",
        {
            "type": "array",
            "elementType": {
                "type": "struct",
                "fields": [{"name": f"f{number}", "type": "long"} for number in range(100)],
            },
        },
    ),
    ("numbers", {"type": "array", "elementType": "long"}),
    ("tags", {"type": "map", "keyType": "string", "valueType": "long"}),
    ("note", "string"),
)
VALUES = JsonValues(COLUMNS, MOST)


@pytest.mark.parametrize(
    ("payload", "are_too_many"),
    [
        (b'{"items": [%s]}' % b",".join([b"{}"] * 90), False),
        (b'{"items": [%s]}' % b",".join([b"{}"] * 110), True),
        (b'{"items": [%s]}' % b",".join([b"{}"] * 300_000), True),
        (b'{"numbers": [%s]}' % b",".join([b"1"] * 9_000), False),
        (b'{"numbers": [%s]}' % b",".join([b"1"] * 11_000), True),
        (b'{"tags": {%s}}' % b",".join(b'"%d":1' % n for n in range(4_900)), False),
        (b'{"tags": {%s}}' % b",".join(b'"%d":1' % n for n in range(5_100)), True),
        (b'{"note": "%s"}' % (b'{[,\\"' * 100_000), False),
        (b'{"other": [%s]}' % b",".join([b"{}"] * 9_000), False),
        (b'{"note": "\\ud800", "items": [%s]}' % b",".join([b"{}"] * 110), True),
        (b'{"note": "\\ud800", "items": [%s]}' % b",".join([b"{}"] * 10), False),
        (b'{"other": [%s]}' % b",".join([b"{}"] * 11_000), True),
    ],
)
def test_json_counts_each_column_of_each_object(payload: bytes, *, are_too_many: bool):
    assert VALUES.are_too_many(payload) == are_too_many


def test_json_with_too_many_values_is_neither_decoded_nor_looked_at_for_columns():
    fields = tuple({"name": name, "type": kind} for name, kind in COLUMNS)
    decoder = JsonDecoder(fields, MOST)
    many = b'{"new": [%s]}' % b",".join([b"{}"] * 11_000)
    payloads = [many, b'{"new": 1}', b"{", None]
    reasons = [row["reason"] for row in rows_of(decoder, payloads)]
    assert reasons[:2] == [TOO_MANY, None]
    assert None not in reasons[2:]
    batch = landed(payloads)
    looking = Looking(fields, arrow_of(decoder), Limits(10), MOST)
    assert facts_in([batch], looking) == {((), "object"): 1, (("new",), "long"): 1}
