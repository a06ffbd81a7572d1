"""Avro payloads: each becomes the row that its producer wrote, or goes to quarantine with a reason."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.typed.formats.avro import AvroDecoder
from tests.typed.formats.decodings import rows_of

ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
}
SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
        {"name": "first", "type": ["null", "shop.Item"]},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "is_new", "type": "boolean"},
    ],
}
ROW = {
    "number": 7,
    "customer": "Zoë",
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "amount": Decimal("12.50"),
    "state": "PAID",
    "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": -1}],
    "first": {"sku": "a", "n": 2},
    "tags": {"k": 0.5},
    "token": "0b1c8f9e-5a4b-4d57-9a43-8a4d9c6e2f10",
    "hash": b"\x00\xff12",
    "is_new": True,
}
PLAIN = AvroDecoder("orders", json.dumps(SCHEMA), is_single_object=False)
SINGLE = AvroDecoder("orders", json.dumps(SCHEMA), is_single_object=True)


def written(row: dict[str, Any], schema: Any = SCHEMA) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


def of(*fields: dict[str, Any]) -> AvroDecoder:
    schema = {"type": "record", "name": "R", "fields": list(fields)}
    return AvroDecoder("orders", json.dumps(schema), is_single_object=False)


def test_a_payload_becomes_the_row_that_its_producer_wrote():
    empty = {**ROW, "customer": None, "first": None, "items": [], "tags": {}}
    first, second = rows_of(PLAIN, [written(ROW), written(empty)])
    assert first["row"] == {**ROW, "tags": [("k", 0.5)]}
    assert second["row"] == {**empty, "tags": []}


def test_a_payload_that_is_cut_off_or_goes_on_after_the_record_goes_to_quarantine():
    whole = written(ROW)
    found = rows_of(PLAIN, [*(whole[:end] for end in range(len(whole))), whole + b"\x00\x01", whole, None])
    assert [row["reason"] is None for row in found] == [False] * (len(whole) + 1) + [True, False]
    assert found[len(whole)]["reason"] == "2 bytes follow the Avro record"
    assert found[-1]["reason"] == "the record has no payload"


def test_a_value_that_its_column_cant_hold_costs_its_own_row_only():
    # Avro's bytes can have more digits than the schema says: fastavro doesn't check that when it reads.
    wide = json.loads(json.dumps(SCHEMA).replace('"precision": 10', '"precision": 30'))
    large = written({**ROW, "amount": Decimal("123456789012345.67")}, wide)
    found = rows_of(PLAIN, [written(ROW), large, written(ROW)])
    assert [row["row"] is None for row in found] == [False, True, False]
    assert "fit" in found[1]["reason"]


def test_a_single_object_has_to_be_of_the_schema():
    header = bytes.fromhex("c301") + bytes.fromhex(
        "8f5c393f1ad57572"
    )  # of the schema "int", as Avro's specification has it
    (row,) = rows_of(SINGLE, [header + written(ROW)])
    own = bytes.fromhex(row["reason"].rpartition(" ")[2])
    assert "another Avro schema: its fingerprint is 8f5c393f1ad57572" in row["reason"]
    found = rows_of(SINGLE, [b"\xc3\x01" + own + written(ROW), written(ROW), b"", b"\xc3\x01" + own])
    assert found[0]["row"]["number"] == 7
    assert [row["reason"] for row in found[1:3]] == ["the payload isn't an Avro single object"] * 2
    assert found[3]["row"] is None


@given(st.binary(max_size=300))
def test_any_bytes_become_a_row_or_a_reason(payload: bytes):
    rows_of(PLAIN, [payload, written(ROW)])


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_costs_no_other_row(place: int, change: int):
    changed = bytearray(written(ROW))
    changed[place % len(changed)] ^= change
    found = rows_of(PLAIN, [written(ROW), bytes(changed), written(ROW)])
    assert found[0]["row"] == found[2]["row"] is not None


def test_a_claim_of_a_billion_items_or_bytes_ends_with_the_payload():
    many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    items = of({"name": "items", "type": {"type": "array", "items": "boolean"}})
    text = of({"name": "text", "type": "string"})
    for decoder in (items, text):
        (row,) = rows_of(decoder, [many + b"\x01" * 1000])
        assert "doesn't fit the schema" in row["reason"]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (["int", "string"], "a union of 2 types"),
        ("null", "null has no counterpart"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "take no bytes"),
        (["null", "R"], "the record R contains itself"),
        ({"type": "record", "name": "E", "fields": []}, "the record E has no fields"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, "a decimal of 50 digits"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_schema_without_a_counterpart_is_refused_before_anything_is_parsed(kind: Any, why: str):
    with pytest.raises(BadSetting, match=why):
        of({"name": "x", "type": kind}).columns()


@pytest.mark.parametrize(
    "schema", ["{", "[]", '"int"', '{"type": "record"}', '{"type": "enum", "name": "E", "symbols": ["A"]}']
)
def test_a_text_that_isnt_the_schema_of_a_record_is_refused(schema: str):
    with pytest.raises(BadSetting, match="the Avro schema of the target orders can't become columns"):
        AvroDecoder("orders", schema, is_single_object=False).columns()
