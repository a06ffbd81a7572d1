"""Protobuf payloads by a compiled set of descriptors (`protoc --include_imports --descriptor_set_out`) and the name of
a message."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.parse import MOST_VALUES
from headrace.pipeline.typed.formats.decoder import Read
from headrace.pipeline.typed.formats.lanes import NotInLanes, Payloads
from headrace.pipeline.typed.formats.protobuf_columns import MessageKinds
from headrace.pipeline.typed.formats.protobuf_values import limit_of
from headrace.pipeline.typed.formats.registry_header import NoHeader, message_index, of_confluent
from headrace.pipeline.typed.formats.rows import CantDecode, Decode, row_by_row
from headrace.pipeline.typed.formats.side_by_side import side_by_side

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = "google.protobuf."
_WRAPPED = {
    f"{_WRAPPERS}{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ProtobufDecoder:
    target: str
    descriptors: str
    """The content of the descriptor file, in base64."""
    message: str
    """The message's full name."""
    is_confluent: bool = False
    """Whether Confluent's header comes before the message."""
    most_values: int = MOST_VALUES

    def columns(self) -> list[tuple[str, Any]]:
        try:
            return [(column.name, _spark_type(column, ())) for column in self._descriptor().fields]
        except (LookupError, TypeError, ValueError) as error:
            raise self._bad(error) from error
        except Exception as error:
            if not type(error).__module__.startswith("google.protobuf"):
                raise
            raise self._bad(error) from error

    def reading(self, columns: Sequence[pa.Field[Any]]) -> Read:
        library = row_by_row(self._decode(), self.most_values, columns)
        if self.is_confluent:
            return library
        descriptor = self._descriptor()
        try:
            message = MessageKinds(_TIMESTAMP, frozenset(_WRAPPED)).message(descriptor, columns)
        except NotInLanes:
            return library

        def in_columns(payloads: list[bytes]) -> tuple[pa.Array[Any], Any]:
            lanes = Payloads(payloads, b"")
            rows = message(lanes, np.arange(len(payloads)))
            return rows, lanes.is_left | (lanes.place != lanes.end)

        a_byte = limit_of(descriptor, {_TIMESTAMP, *_WRAPPED}, self.most_values).a_byte
        return side_by_side(in_columns, library, a_byte, self.most_values)

    def _decode(self) -> Decode:
        from google.protobuf.message_factory import GetMessageClass

        descriptor = self._descriptor()
        parse = GetMessageClass(descriptor).FromString
        row = _struct_of(descriptor)
        share = limit_of(descriptor, {_TIMESTAMP, *_WRAPPED}, self.most_values).share

        def decode(payload: bytes) -> tuple[dict[str, Any], float]:
            portion = share(payload)
            return row(parse(payload)), portion

        if not self.is_confluent:
            return decode
        own = _indexes(descriptor)

        def decode_after_header(payload: bytes) -> tuple[dict[str, Any], float]:
            try:
                schema, content = of_confluent(payload)
                index, content = message_index(content)
            except NoHeader as error:
                raise CantDecode(str(error)) from None
            if index not in own:
                raise CantDecode(
                    f"the payload is message {list(index)} of the schema {schema}, and {self.message} is message {list(min(own))}"
                )
            return decode(content)

        return decode_after_header

    def _descriptor(self) -> Descriptor:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool

        # A pool of its own: the default one of the process refuses a second file of the same name,
        # and a target's descriptors may be another version of what the user's code has imported.
        pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(b64decode(self.descriptors)).file:
            pool.Add(file)
        return pool.FindMessageTypeByName(self.message)

    def _bad(self, error: Exception) -> BadSetting:
        return BadSetting(
            f"the Protobuf message {self.message} of the target {self.target} can't become columns: {str(error) or type(error).__name__}. Nothing "
            "was parsed; make the file by protoc --include_imports --descriptor_set_out, give the message its full name (package.Message), or "
            "use format: callable"
        )


def _indexes(descriptor: Descriptor) -> set[tuple[int, ...]]:
    """The places of a message in its file, from the outermost message to it. Some serializers count the messages that
    Protobuf makes for maps, and others don't."""
    return {tuple(_places(descriptor, counts_maps=counts_maps)) for counts_maps in (True, False)}


def _places(descriptor: Descriptor, *, counts_maps: bool) -> Iterator[int]:
    outer = descriptor.containing_type
    if outer is not None:
        yield from _places(outer, counts_maps=counts_maps)
    beside = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
    counted = [inner for inner in beside if counts_maps or not inner.GetOptions().map_entry]
    yield [inner.full_name for inner in counted].index(descriptor.full_name)


def _spark_type(field: FieldDescriptor, above: tuple[str, ...]) -> Any:
    """The type of Spark for a field of a message. `above`: the names of the messages around this field."""
    if entry := _entry_of(field):
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return {"type": "map", "keyType": _single_type(key, above), "valueType": _single_type(value, above)}
    single = _single_type(field, above)
    return {"type": "array", "elementType": single} if field.is_repeated else single


def _entry_of(field: FieldDescriptor) -> Descriptor | None:
    """The message of a map's entries: a map is a repeated field of them. None for other fields."""
    message = field.message_type
    return message if message is not None and message.GetOptions().map_entry else None


def _single_type(field: FieldDescriptor, above: tuple[str, ...]) -> Any:
    message = field.message_type
    if message is None:
        return _scalar_type(field)
    if message.full_name == _TIMESTAMP:
        return "timestamp"
    if message.full_name in _WRAPPED:
        return _scalar_type(message.fields_by_name["value"])
    if message.full_name in above:
        raise ValueError(f"the message {message.full_name} contains itself")
    if not message.fields:
        raise ValueError(f"the message {message.full_name} has no fields")
    inner = (*above, message.full_name)
    fields = [{"name": column.name, "type": _spark_type(column, inner)} for column in message.fields]
    return {"type": "struct", "fields": fields}


def _scalar_type(field: FieldDescriptor) -> str:
    from google.protobuf.descriptor import FieldDescriptor as Kind

    if field.type == Kind.TYPE_BYTES:
        return "binary"
    return {
        Kind.CPPTYPE_INT32: "integer",
        Kind.CPPTYPE_INT64: "long",
        Kind.CPPTYPE_UINT32: "long",
        Kind.CPPTYPE_UINT64: "decimal(20,0)",
        Kind.CPPTYPE_DOUBLE: "double",
        Kind.CPPTYPE_FLOAT: "float",
        Kind.CPPTYPE_BOOL: "boolean",
        Kind.CPPTYPE_ENUM: "string",
        Kind.CPPTYPE_STRING: "string",
    }[field.cpp_type]


_Take = Callable[[Any], Any]


def _struct_of(descriptor: Descriptor) -> Callable[[Message], dict[str, Any]]:
    fields = [(column.name, _needs_asking(column), _take_of(column)) for column in descriptor.fields]

    def struct(message: Message) -> dict[str, Any]:
        return {
            name: None
            if asks and not message.HasField(name)
            else getattr(message, name)
            if take is None
            else take(getattr(message, name))
            for name, asks, take in fields
        }

    return struct


def _needs_asking(field: FieldDescriptor) -> bool:
    return field.has_presence


def _take_of(field: FieldDescriptor) -> _Take | None:
    """From the library's value of a field to Arrow's. None: it is the same."""
    if entry := _entry_of(field):
        of_value = _single(entry.fields_by_name["value"]) or _same
        return lambda values: [(key, of_value(value)) for key, value in values.items()]
    take = _single(field)
    if not field.is_repeated or take is None:
        return list if field.is_repeated else take
    return lambda values: [take(value) for value in values]


def _same(value: Any) -> Any:
    return value


def _single(field: FieldDescriptor) -> _Take | None:
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        # An open enum may hold a number that the descriptors don't know yet, and the record is
        # valid all the same.
        return lambda number: names.get(number) or str(number)
    if field.message_type is None:
        return None
    if field.message_type.full_name == _TIMESTAMP:
        return _time
    if field.message_type.full_name in _WRAPPED:
        return lambda wrapped: wrapped.value
    return _struct_of(field.message_type)


def _time(timestamp: Any) -> datetime:
    # The library doesn't check this, and more nanoseconds would move the time by seconds.
    if not 0 <= timestamp.nanos < 10**9:
        raise CantDecode(f"a timestamp has {timestamp.nanos} nanoseconds")
    return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)
