"""Protobuf payloads: each becomes the row of its message, or goes to quarantine with a reason."""

from base64 import b64encode
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import text_format, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.typed.formats.protobuf import ProtobufDecoder
from tests.typed.formats.decodings import rows_of

FILE = """
name: "shop.proto" package: "shop" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/wrappers.proto"
enum_type { name: "State" value { name: "OPEN" number: 0 } value { name: "PAID" number: 1 } }
message_type {
  name: "Item"
  field { name: "sku" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "n" number: 2 type: TYPE_SINT32 label: LABEL_OPTIONAL }
}
message_type {
  name: "Order"
  field { name: "number" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "customer" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 proto3_optional: true }
  field { name: "at" number: 3 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "state" number: 4 type: TYPE_ENUM type_name: ".shop.State" label: LABEL_OPTIONAL }
  field { name: "items" number: 5 type: TYPE_MESSAGE type_name: ".shop.Item" label: LABEL_REPEATED }
  field { name: "first" number: 6 type: TYPE_MESSAGE type_name: ".shop.Item" label: LABEL_OPTIONAL }
  field { name: "tags" number: 7 type: TYPE_MESSAGE type_name: ".shop.Order.TagsEntry" label: LABEL_REPEATED }
  field { name: "codes" number: 8 type: TYPE_UINT64 label: LABEL_REPEATED }
  field { name: "score" number: 9 type: TYPE_MESSAGE type_name: ".google.protobuf.DoubleValue" label: LABEL_OPTIONAL }
  field { name: "raw" number: 10 type: TYPE_BYTES label: LABEL_OPTIONAL }
  nested_type {
    name: "TagsEntry"
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shop.Item" label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
  oneof_decl { name: "_customer" }
}
message_type { name: "Tree" field { name: "child" number: 1 type: TYPE_MESSAGE type_name: ".shop.Tree" label: LABEL_OPTIONAL } }
message_type { name: "Nothing" }
message_type { name: "Holder" field { name: "nothing" number: 1 type: TYPE_MESSAGE type_name: ".shop.Nothing" label: LABEL_OPTIONAL } }
"""


def _set() -> FileDescriptorSet:
    files = FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(text_format.Parse(FILE, FileDescriptorProto()))
    return files


DESCRIPTORS = _set()
CONTENT = b64encode(DESCRIPTORS.SerializeToString()).decode()
DECODER = ProtobufDecoder("orders", CONTENT, "shop.Order")


def _order() -> Any:
    pool = DescriptorPool()
    for file in DESCRIPTORS.file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER = _order()


def an_order(**fields: Any) -> bytes:
    at = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)
    order = ORDER(number=7, customer="Zoë", at=at, state=1, codes=[1, 2**64 - 1], raw=b"\xff", **fields)
    order.items.add(sku="a", n=-2)
    order.tags["k"].n = 3
    order.score.value = 0.5
    return bytes(order.SerializeToString(deterministic=True))


def test_a_message_becomes_a_row():
    unknown = b"\xf8\x07\x01"  # field 127, which the descriptors don't have
    first, second, third = rows_of(DECODER, [an_order(), b"", an_order() + unknown])
    assert first["row"] == {
        "number": 7,
        "customer": "Zoë",
        "at": datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC),
        "state": "PAID",
        "items": [{"sku": "a", "n": -2}],
        "first": None,
        "tags": [("k", {"sku": "", "n": 3})],
        "codes": [Decimal(1), Decimal(2**64 - 1)],
        "score": 0.5,
        "raw": b"\xff",
    }
    assert (second["row"]["number"], second["row"]["customer"], second["row"]["state"]) == (0, None, "OPEN")
    assert third["row"] == first["row"]


def test_an_enum_value_that_the_descriptors_lack_is_its_number():
    (row,) = rows_of(DECODER, [ORDER(state=9).SerializeToString()])
    assert row["row"]["state"] == "9"


def test_a_message_that_is_cut_off_or_has_a_value_out_of_range_goes_to_quarantine():
    whole, late = an_order(), ORDER()
    late.at.seconds = 2**62
    odd = ORDER()
    odd.at.nanos = -5
    bad_text = b"\x12\x02\xff\xfe"
    payloads = [whole[:-1], late.SerializeToString(), odd.SerializeToString(), bad_text, whole, b"\xff" * 20]
    found = rows_of(DECODER, payloads)
    assert [row["row"] is None for row in found] == [True, True, True, True, False, True]
    assert "DecodeError" in found[0]["reason"]
    assert "-5 nanoseconds" in found[2]["reason"]


@given(st.binary(max_size=300))
def test_any_bytes_become_a_row_or_a_reason(payload: bytes):
    rows_of(DECODER, [payload, an_order()])


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_costs_no_other_row(place: int, change: int):
    changed = bytearray(an_order())
    changed[place % len(changed)] ^= change
    found = rows_of(DECODER, [an_order(), bytes(changed), an_order()])
    assert found[0]["row"] == found[2]["row"] is not None


@pytest.mark.parametrize(
    ("content", "message", "why"),
    [
        (CONTENT, "shop.Tree", "contains itself"),
        (CONTENT, "shop.Holder", "shop.Nothing has no fields"),
        (CONTENT, "Order", "Order"),
        ("AAAA", "shop.Order", "can't become columns"),
        ("no base64", "shop.Order", "can't become columns"),
        (
            b64encode(FileDescriptorSet(file=DESCRIPTORS.file[2:]).SerializeToString()).decode(),
            "shop.Order",
            "include_imports",
        ),
    ],
)
def test_a_message_without_a_counterpart_is_refused_before_anything_is_parsed(
    content: str, message: str, why: str
):
    with pytest.raises(BadSetting, match=why):
        ProtobufDecoder("orders", content, message).columns()
