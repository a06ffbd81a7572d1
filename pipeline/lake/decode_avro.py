"""Avro payloads by a schema: a record in Avro's binary form, with or without the header of a single object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from pipeline.errors import BadSetting
from pipeline.lake.decode import CantDecode, Decode

_MARKER = b"\xc3\x01"
"""Begins a single object; the schema's fingerprint follows."""
_HEADER = len(_MARKER) + 8
_PLAIN = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "fixed": "binary",
    "enum": "string",
}
_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
"""Other logical types are read as the type below them."""
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    target: str
    schema: str
    """In JSON."""
    is_single_object: bool

    def columns(self) -> list[tuple[str, Any]]:
        try:
            parsed, named = self._parsed()
            if not isinstance(parsed, dict) or parsed.get("type") != "record":
                raise ValueError("the outermost type isn't a record")
            return [(each["name"], _spark_type(each["type"], named, ())) for each in parsed["fields"]]
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise _bad(self.target, error) from error
        except Exception as error:
            # fastavro's own errors have no class in common.
            if not type(error).__module__.startswith("fastavro"):
                raise
            raise _bad(self.target, error) from error

    def reading(self) -> Decode:
        from fastavro import schemaless_reader
        from fastavro.schema import fingerprint, to_parsing_canonical_form

        schema, _ = self._parsed()
        header = b""
        if self.is_single_object:
            canonical = to_parsing_canonical_form(json.loads(self.schema))
            header = _MARKER + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))

        def decode(payload: bytes) -> dict[str, Any]:
            if not payload.startswith(header):
                raise CantDecode(_why_other(payload, header))
            stream = BytesIO(payload)
            stream.seek(len(header))
            found: dict[str, Any] = schemaless_reader(stream, schema, None)  # type: ignore[assignment] # the schema is a record
            if stream.tell() != len(payload):
                raise CantDecode(f"{len(payload) - stream.tell()} bytes follow the Avro record")
            return found

        return decode

    def _parsed(self) -> tuple[Any, dict[str, Any]]:
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        return parse_schema(_known_logical_only(json.loads(self.schema)), named_schemas=named), named


def _bad(target: str, error: Exception) -> BadSetting:
    return BadSetting(
        f"the Avro schema of the target {target} can't become columns: {error}. Nothing was parsed; correct the schema, or use format: callable"
    )


def _why_other(payload: bytes, header: bytes) -> str:
    if not payload.startswith(_MARKER) or len(payload) < _HEADER:
        return "the payload isn't an Avro single object"
    return f"the payload was written by another Avro schema: its fingerprint is {payload[2:_HEADER].hex()}, and that of the schema {header[2:].hex()}"


def _known_logical_only(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_known_logical_only(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {
        name: _known_logical_only(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
    }
    if own.get("logicalType") not in {*_LOGICAL, "decimal"}:
        own.pop("logicalType", None)
    return own


def _spark_type(schema: Any, named: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    """`above`: the names of the records around this type."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise ValueError(f"a union of {len(others)} types beside null has no counterpart in a table")
        return _spark_type(others[0], named, above)
    if isinstance(schema, str):
        if schema in named:
            return _spark_type(named[schema], named, above)
        schema = {"type": schema}
    match schema["type"]:
        case "record":
            return _struct(schema, named, above)
        case "array":
            _not_empty(schema["items"], named)
            return {"type": "array", "elementType": _spark_type(schema["items"], named, above)}
        case "map":
            return {
                "type": "map",
                "keyType": "string",
                "valueType": _spark_type(schema["values"], named, above),
            }
        case str() as plain if plain in _PLAIN:
            return _scalar(plain, schema)
        case dict() | list() as inner:
            return _spark_type(inner, named, above)
        case other:
            raise ValueError(f"the type {other} has no counterpart in a table")


def _struct(schema: Mapping[str, Any], named: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    name = schema["name"]
    if name in above:
        raise ValueError(f"the record {name} contains itself")
    if not schema["fields"]:
        raise ValueError(f"the record {name} has no fields")
    fields = (
        {"name": each["name"], "type": _spark_type(each["type"], named, (*above, name))}
        for each in schema["fields"]
    )
    return {"type": "struct", "fields": list(fields)}


def _scalar(plain: str, schema: Mapping[str, Any]) -> str:
    logical = schema.get("logicalType", "")
    if plain in ("bytes", "fixed") and logical == "decimal":
        if schema["precision"] > _MOST_DIGITS:
            raise ValueError(f"a decimal of {schema['precision']} digits has no counterpart in a table")
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL and plain == ("int" if logical == "date" else "long"):
        return _LOGICAL[logical]
    return _PLAIN[plain]


def _not_empty(items: Any, named: Mapping[str, Any]) -> None:
    """Items that take no bytes are refused: a payload of ten bytes could claim to have a billion."""
    found = named.get(items, items) if isinstance(items, str) else items
    if isinstance(found, dict) and found.get("type") == "fixed" and not found["size"]:
        raise ValueError("items of an array take no bytes")
    if isinstance(found, dict) and found.get("type") == "record" and found["fields"]:
        _not_empty(found["fields"][0]["type"], named)
