"""Avro payloads by a schema: a record in Avro's binary form, with or without the header of a single object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.parse import MOST_VALUES
from headrace.pipeline.typed.formats.avro_columns import record_part
from headrace.pipeline.typed.formats.avro_decimal import bounded
from headrace.pipeline.typed.formats.avro_values import AvroValues, contains_itself
from headrace.pipeline.typed.formats.decoder import Read
from headrace.pipeline.typed.formats.lanes import NotInLanes, Payloads
from headrace.pipeline.typed.formats.registry_header import Header, NoHeader
from headrace.pipeline.typed.formats.rows import CantDecode, Decode, row_by_row
from headrace.pipeline.typed.formats.side_by_side import side_by_side

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
    most_values: int = MOST_VALUES

    def columns(self) -> list[tuple[str, Any]]:
        with _refusing(f"the Avro schema of the target {self.target} can't become columns"):
            parsed, named = _parsed(self.schema)
            if not isinstance(parsed, dict) or parsed.get("type") != "record":
                raise ValueError("the outermost type isn't a record")
            return [(field["name"], _spark_type(field["type"], named, ())) for field in parsed["fields"]]

    def reading(self, columns: Sequence[pa.Field[Any]]) -> Read:
        library = row_by_row(self._decode(), self.most_values, columns)
        schema, named = _parsed(self.schema)
        try:
            record = record_part(schema, named, columns)
        # A schema that the lanes don't know costs speed only: the library reads each of its
        # payloads.
        except NotInLanes:
            return library
        header = self._header()

        def in_columns(payloads: list[bytes]) -> tuple[pa.Array[Any], Any]:
            lanes = Payloads(payloads, header)
            rows = record(lanes, np.arange(len(payloads)))
            return rows, lanes.is_left | (lanes.place != lanes.end)

        a_byte = AvroValues(schema, named).limit(self.most_values).a_byte
        return side_by_side(in_columns, library, a_byte, self.most_values)

    def _header(self) -> bytes:
        """The header of a single object; empty where payloads have none."""
        from fastavro.schema import fingerprint, to_parsing_canonical_form

        if not self.is_single_object:
            return b""
        canonical = to_parsing_canonical_form(json.loads(self.schema))
        return _MARKER + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))

    def _decode(self) -> Decode:
        from fastavro import schemaless_reader

        schema, named = _to_read(self.schema)
        share = AvroValues(schema, named).limit(self.most_values).share
        header = self._header()

        def decode(payload: bytes) -> tuple[dict[str, Any], float]:
            if not payload.startswith(header):
                raise CantDecode(_why_other(payload, header))
            content = payload[len(header) :]
            payload_share, stream = share(content), BytesIO(content)
            record: dict[str, Any] = schemaless_reader(stream, schema, None)  # type: ignore[assignment] # the schema is a record
            # What follows the record was written by another schema, or is a second record. A part
            # that nobody reads would be lost without a trace.
            if stream.tell() != len(content):
                raise CantDecode(f"{len(content) - stream.tell()} bytes follow the Avro record")
            return record, payload_share

        return decode


@dataclass(frozen=True, slots=True)
class RegistryAvroDecoder:
    """Decodes Avro payloads that begin with the header of a schema registry. The header names the schema by which
    the payload was written; `reader` has the schema of the columns, and Avro's rules resolve the one to the
    other.
    """

    reader: AvroDecoder
    header: Header
    writers: Mapping[str, str]
    """Id -> schema in JSON, as the registry has it."""

    def columns(self) -> list[tuple[str, Any]]:
        for schema_id, text in self.writers.items():
            with _refusing(
                f"schema {schema_id} in the folder `schemas` of the target {self.reader.target} can't be used"
            ):
                _check_writer(*_parsed(text))
        return self.reader.columns()

    def reading(self, columns: Sequence[pa.Field[Any]]) -> Read:
        return row_by_row(self._decode(), self.reader.most_values, columns)

    def _decode(self) -> Decode:
        reader, known = _to_read(self.reader.schema)
        writers: dict[str, tuple[Callable[[BytesIO], dict[str, Any]], Callable[[bytes], float]]] = {}

        def writer_of(schema_id: str) -> tuple[Callable[[BytesIO], dict[str, Any]], Callable[[bytes], float]]:
            schema, named = _to_read(self.writers[schema_id])
            return _resolving(schema, named, reader), AvroValues(schema, named, known).limit(
                self.reader.most_values
            ).share

        def decode(payload: bytes) -> tuple[dict[str, Any], float]:
            try:
                schema_id, content = self.header(payload)
            except NoHeader as error:
                raise CantDecode(str(error)) from None
            if schema_id not in self.writers:
                raise CantDecode(
                    f"the payload was written by schema {schema_id}, which isn't in the folder `schemas`"
                )
            if schema_id not in writers:
                # Made at the first payload of this schema: a folder may have many that no payload
                # of the task uses.
                writers[schema_id] = writer_of(schema_id)
            read, share = writers[schema_id]
            payload_share, stream = share(content), BytesIO(content)
            record = read(stream)
            if stream.tell() != len(content):
                raise CantDecode(f"{len(content) - stream.tell()} bytes follow the Avro record")
            return record, payload_share

        return decode


def schemas_in(folder: str, target: str, setting: str = "`schemas`") -> dict[str, str]:
    """The Avro schemas in a folder, by their ids in the schema registry: each is a file that is named for its id.
    `setting`: the name of the setting that names the folder, for messages.
    """
    try:
        files = sorted(Path(folder).glob("*.avsc"))
        schemas = {file.stem.lower(): file.read_text(encoding="utf-8") for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"the folder `schemas` of the target {target} can't be read ({error}). Nothing was parsed; correct the files, or {setting}"
        ) from error
    if not schemas:
        raise BadSetting(
            f"the folder {folder} of the target {target} has no schema. Nothing was parsed; put each schema of the registry there, in a file "
            "that is named for its id (42.avsc)"
        )
    return schemas


def _parsed(schema: str) -> tuple[Any, dict[str, Any]]:
    from fastavro import parse_schema

    named: dict[str, Any] = {}
    return parse_schema(_known_logical_only(json.loads(schema)), named_schemas=named), named


def _to_read(schema: str) -> tuple[Any, dict[str, Any]]:
    """The schema as `_parsed` gives it, for reading payloads."""
    from fastavro import parse_schema

    named: dict[str, Any] = {}
    return parse_schema(bounded(_known_logical_only(json.loads(schema))), named_schemas=named), named


def _resolving(writer: Any, named: Mapping[str, Any], reader: Any) -> Callable[[BytesIO], dict[str, Any]]:
    """A function that reads one record as the writer's schema has it, and brings it to the reader's schema."""
    from fastavro import schemaless_reader
    from fastavro._read_py import schemaless_reader as bounded_reader

    if not contains_itself(writer, named):
        return lambda stream: schemaless_reader(stream, writer, reader)  # type: ignore[return-value] # see columns

    # The reader in C calls itself for each level without a limit: a payload of a few kilobytes would end the process.
    def read(stream: BytesIO) -> dict[str, Any]:
        try:
            return bounded_reader(stream, writer, reader)  # type: ignore[return-value] # see columns
        except RecursionError:
            raise CantDecode(
                "the payload has more levels of records within records than can be read"
            ) from None

    return read


def _check_writer(schema: Any, named: Mapping[str, Any]) -> None:
    """A writer's schema may have what no column can have, where the reader's leaves it out. Items that take no bytes
    are still refused."""
    match schema:
        case list():
            for member in schema:
                _check_writer(member, named)
        case {"type": "array", "items": items}:
            if not _takes_bytes(items, named):
                raise ValueError("items of an array take no bytes")
            _check_writer(items, named)
        case {"type": "map", "values": values}:
            _check_writer(values, named)
        case {"type": "record", "fields": fields}:
            for field in fields:
                _check_writer(field["type"], named)
        case {"type": dict() | list() as inner}:
            _check_writer(inner, named)


def _takes_bytes(schema: Any, named: Mapping[str, Any], above: tuple[str, ...] = ()) -> bool:
    """Whether each value takes a byte or more. A record that contains itself does so by a union or an array, which
    takes one."""
    match schema:
        case str() if schema in named:
            return schema in above or _takes_bytes(named[schema], named, (*above, schema))
        case "null" | {"type": "null"}:
            return False
        case {"type": "fixed", "size": size}:
            return bool(size)
        case {"type": "record", "fields": fields}:
            return any(_takes_bytes(field["type"], named, above) for field in fields)
        case {"type": dict() as inner}:
            return _takes_bytes(inner, named, above)
        case _:
            return True


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Turn errors of a schema into a sentence."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise _bad(what, error) from error
    except Exception as error:
        # fastavro's own errors have no class in common.
        if not type(error).__module__.startswith("fastavro"):
            raise
        raise _bad(what, error) from error


def _bad(what: str, error: Exception) -> BadSetting:
    return BadSetting(f"{what}: {error}. Nothing was parsed; correct the schema, or use format: callable")


def _why_other(payload: bytes, header: bytes) -> str:
    if not payload.startswith(_MARKER) or len(payload) < _HEADER:
        return "the payload isn't an Avro single object"
    return f"the payload was written by another Avro schema: its fingerprint is {payload[2:_HEADER].hex()}, and that of the schema {header[2:].hex()}"


def _known_logical_only(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_known_logical_only(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    own = {
        name: _known_logical_only(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
    }
    if own.get("logicalType") not in {*_LOGICAL, "decimal"}:
        # fastavro would make values of other logical types (a UUID, a time of the day) that no
        # column here has.
        own.pop("logicalType", None)
    return own


def _spark_type(schema: Any, named: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    """The type of Spark for a type of Avro. `above`: the names of the records around this type."""
    if isinstance(schema, list):
        others = [member for member in schema if member != "null"]
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
        {"name": field["name"], "type": _spark_type(field["type"], named, (*above, name))}
        for field in schema["fields"]
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
    kind = named.get(items, items) if isinstance(items, str) else items
    if isinstance(kind, dict) and kind.get("type") == "fixed" and not kind["size"]:
        raise ValueError("items of an array take no bytes")
    if isinstance(kind, dict) and kind.get("type") == "record" and kind["fields"]:
        _not_empty(kind["fields"][0]["type"], named)
