"""Payloads with the header of a schema registry: the schema that the header names reads them, or they go to quarantine with a reason."""

import json
import zlib
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import Compression
from headrace.pipeline.typed.formats.avro import AvroDecoder, RegistryAvroDecoder, schemas_in
from headrace.pipeline.typed.formats.inflate import Inflation
from headrace.pipeline.typed.formats.protobuf import ProtobufDecoder
from headrace.pipeline.typed.formats.registry_header import Header, of_confluent, of_glue
from tests.typed.formats import test_decode_protobuf as protobuf
from tests.typed.formats.decodings import rows_of
from tests.typed.formats.test_decode_avro import written

OLD = {
    "type": "record",
    "name": "O",
    "fields": [{"name": "n", "type": "int"}, {"name": "x", "type": ["int", "string"]}],
}
NEW = {
    "type": "record",
    "name": "O",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string", "default": "?"}],
}
STRANGE = {"type": "record", "name": "O", "fields": [{"name": "n", "type": "string"}]}
GLUE_ID = UUID("12345678-9abc-def0-1234-56789abcdef0")
GLUE = partial(of_glue, inflation=Inflation(Compression.NONE, 2**21, 200))


def decoder(header: Header, **writers: Any) -> RegistryAvroDecoder:
    texts = {name.removeprefix("_"): json.dumps(each) for name, each in writers.items()}
    return RegistryAvroDecoder(AvroDecoder("orders", json.dumps(NEW), is_single_object=False), header, texts)


CONFLUENT = decoder(of_confluent, _1=OLD, _70000=NEW, _3=STRANGE)


def test_confluents_header_names_the_schema_that_wrote_the_payload():
    old = b"\0\0\0\0\1" + written({"n": 5, "x": "left out"}, OLD)
    new = b"\0\0\1\x11\x70" + written({"n": 2**40, "s": "t"}, NEW)
    rows = rows_of(
        CONFLUENT, [old, new, old + b"!", old[:4], b"\1" + old[1:], b"\0\0\0\0\2" + old[5:], b"\0\0\0\0\3\2a"]
    )
    assert [row["row"] for row in rows[:2]] == [{"n": 5, "s": "?"}, {"n": 2**40, "s": "t"}]
    reasons = [row["reason"] for row in rows[2:]]
    assert reasons[0] == "1 bytes follow the Avro record"
    assert (
        reasons[1] == reasons[2] == "the payload doesn't begin with the header of Confluent's schema registry"
    )
    assert reasons[3] == "the payload was written by schema 2, which isn't in the folder `schemas`"
    assert "doesn't fit the schema: SchemaResolutionError" in reasons[4]


def test_glues_header_names_the_schema_and_the_compression():
    content = written({"n": 5, "s": "t"}, NEW)
    found = RegistryAvroDecoder(CONFLUENT.reader, GLUE, {str(GLUE_ID): json.dumps(NEW)})
    begin = GLUE_ID.bytes
    zipped = zlib.compress(content)
    rows = rows_of(
        found,
        [
            b"\3\0" + begin + content,
            b"\3\5" + begin + zipped,
            b"\3\5" + begin + zipped[:-1],
            b"\3\5" + begin + zlib.compress(bytes(2**22)),
            b"\3\1" + begin + content,
            b"\3\0" + bytes(16) + content,
            content,
        ],
    )
    assert [row["row"] for row in rows[:2]] == [{"n": 5, "s": "t"}] * 2
    reasons = [row["reason"] for row in rows[2:]]
    assert "its end is missing" in reasons[0]
    assert "inflated." in reasons[1]
    assert "the compression 1" in reasons[2]
    assert "written by schema 00000000-0000-0000-0000-000000000000" in reasons[3]
    assert "AWS Glue" in reasons[4]


@given(st.binary(max_size=60))
def test_any_bytes_become_a_row_or_a_reason(payload: bytes):
    rows_of(CONFLUENT, [payload, b"\0\0\0\0\1" + payload])


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]},
    ],
)
def test_a_schema_by_which_ten_bytes_claim_a_billion_items_is_refused(items: Any):
    field = {"name": "many", "type": ["null", {"type": "array", "items": items}]}
    with pytest.raises(BadSetting, match=r"schema 7 in the folder .* take no bytes"):
        decoder(of_confluent, _7={"type": "record", "name": "O", "fields": [field]}).columns()


def test_records_within_records_without_end_cost_their_own_payload_only():
    inner = {"name": "next", "type": ["null", {"type": "array", "items": {"type": "map", "values": "O"}}]}
    tree = {"type": "record", "name": "O", "fields": [{"name": "n", "type": "int"}, inner]}
    found = decoder(of_confluent, _7=tree, _1=OLD)
    begin, level, leaf = b"\0\0\0\0\7", b"\x0a\2\2\2\2k", b"\x0c\0"
    whole = begin + level * 20 + leaf + b"\0\0" * 20
    hostile = begin + level * 50_000 + leaf + b"\0\0" * 50_000
    old = b"\0\0\0\0\1" + written({"n": 5, "x": 1}, OLD)
    rows = rows_of(found, [whole, hostile, begin + level * 500_000, old])
    assert [row["row"] for row in rows] == [{"n": 5, "s": "?"}, None, None, {"n": 5, "s": "?"}]
    assert "more levels of records within records" in rows[1]["reason"]


def test_a_folder_has_a_file_for_each_schema(tmp_path: Path):
    with pytest.raises(BadSetting, match="has no schema"):
        schemas_in(str(tmp_path), "orders")
    (tmp_path / "42.avsc").write_text("{}")
    (tmp_path / f"{str(GLUE_ID).upper()}.avsc").write_text("{}")
    assert schemas_in(str(tmp_path), "orders") == {"42": "{}", str(GLUE_ID): "{}"}
    with pytest.raises(BadSetting, match=r"schema .* in the folder"):
        RegistryAvroDecoder(CONFLUENT.reader, of_confluent, schemas_in(str(tmp_path), "orders")).columns()


def test_confluents_header_of_protobuf_names_the_message():
    found = ProtobufDecoder("orders", protobuf.CONTENT, "shop.Order", is_confluent=True)
    message, begin = protobuf.an_order(), b"\0\0\0\0\7"
    rows = rows_of(
        found,
        [
            begin + b"\2\2" + message,
            begin + b"\0" + message,
            begin + b"\4\2\0" + message,
            begin + b"\x80",
            message,
        ],
    )
    assert rows[0]["row"]["number"] == 7
    reasons = [row["reason"] for row in rows[1:]]
    assert reasons[0] == "the payload is message [0] of the schema 7, and shop.Order is message [1]"
    assert "message [1, 0]" in reasons[1]
    assert reasons[2] == "the payload's header is cut off"
    assert "Confluent" in reasons[3]
