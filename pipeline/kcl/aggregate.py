"""Parses the protobuf message inside an aggregated record of the Kinesis Producer Library (KPL).

    AggregatedRecord { repeated string partition_key_table = 1;  repeated string explicit_hash_key_table = 2;
                       repeated Record records = 3; }
    Record           { required uint64 partition_key_index = 1;  optional uint64 explicit_hash_key_index = 2;
                       required bytes data = 3;                  repeated Tag tags = 4; }
    Tag              { required string key = 1;                  optional string value = 2; }

This parser accepts and refuses the same bytes as Java's parser: KCL and Headrace must agree on whether a record is an
aggregate. Both skip unknown fields, fields with another wire type, and whole groups. Both refuse a message without a
required field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
# The default recursion limit of Java's protobuf parser, for messages and groups within each other.
_MAX_DEPTH = 100


MOST_USER_RECORDS = 200_000
"""A message with more user records is refused. The largest aggregate that KPL makes (1 MiB) has room for
174,000 empty ones."""


class Malformed(ValueError):
    """The bytes aren't an AggregatedRecord."""


class TooLarge(ValueError):
    """The aggregate would take more memory than a task should hold."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One user record of the aggregate, before its indexes are looked up in the two tables of keys."""

    key_index: int
    hash_key_index: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Aggregate:
    keys: tuple[bytes, ...]
    hash_keys: tuple[bytes, ...]
    entries: tuple[Entry, ...]


def parse(message: bytes) -> Aggregate:
    keys: list[bytes] = []
    hash_keys: list[bytes] = []
    entries: list[Entry] = []
    for number, value in _fields(message, 0):
        match number, value:
            case 1, bytes():
                keys.append(value)
            case 2, bytes():
                hash_keys.append(value)
            case 3, bytes():
                if len(entries) == MOST_USER_RECORDS:
                    raise TooLarge(f"it has more than {MOST_USER_RECORDS:,} user records")
                entries.append(_entry(value))
            case _:
                pass
    return Aggregate(tuple(keys), tuple(hash_keys), tuple(entries))


def _entry(message: bytes) -> Entry:
    key_index: int | None = None
    hash_key_index: int | None = None
    data: bytes | None = None
    for number, value in _fields(message, 1):
        # If a field appears twice, the last one counts, as protobuf prescribes.
        match number, value:
            case 1, int():
                key_index = value
            case 2, int():
                hash_key_index = value
            case 3, bytes():
                data = value
            case 4, bytes():
                _check_tag(value)
            case _:
                pass
    if key_index is None or data is None:
        raise Malformed("a user record has no partition key or no data")
    return Entry(key_index, hash_key_index, data)


def _check_tag(message: bytes) -> None:
    if not any(number == 1 and isinstance(value, bytes) for number, value in _fields(message, 2)):
        raise Malformed("a tag of the message has no key")


def _fields(message: bytes, depth: int) -> Iterator[tuple[int, int | bytes | None]]:
    """The number and the value of each field. The value is an integer for a varint, bytes for a field with a length,
    and None for all other wire types, which no field of these messages has."""
    offset = 0
    while offset < len(message):
        number, wire, offset = _tag(message, offset)
        if wire == _END_GROUP:
            raise Malformed("the message ends a group of fields that it never began")
        value, offset = _value(message, offset, number=number, wire=wire, depth=depth)
        yield number, value


def _tag(message: bytes, offset: int) -> tuple[int, int, int]:
    tag, offset = _varint(message, offset)
    # Java keeps a tag in an int of 32 bits, and drops the upper bits of a longer one.
    tag &= 0xFFFF_FFFF
    if tag >> 3 == 0:
        raise Malformed("field number 0")
    return tag >> 3, tag & 7, offset


def _value(
    message: bytes, offset: int, *, number: int, wire: int, depth: int
) -> tuple[int | bytes | None, int]:
    match wire:
        # Numbers, because a bare name after `case` would be a new variable: varint, bytes, 64 bits, 32 bits, group.
        case 0:
            return _varint(message, offset)
        case 2:
            size, offset = _varint(message, offset)
            # A length is an int in Java too.
            end = _end(message, offset, size & 0xFFFF_FFFF)
            return message[offset:end], end
        case 1:
            return None, _end(message, offset, 8)
        case 5:
            return None, _end(message, offset, 4)
        case 3:
            return None, _after_group(message, offset, number, depth=depth)
        case _:
            raise Malformed(f"wire type {wire}")


def _end(message: bytes, offset: int, size: int) -> int:
    if offset + size > len(message):
        raise Malformed("the message ends within a field")
    return offset + size


def _after_group(message: bytes, offset: int, number: int, *, depth: int) -> int:
    """The offset after the end of a group. A loop, not a recursion: the bytes come from any producer, and could nest
    groups until Python's stack is full."""
    open_groups = [number]
    while open_groups:
        if depth + len(open_groups) > _MAX_DEPTH:
            raise Malformed(f"groups are nested deeper than {_MAX_DEPTH} levels")
        inner, wire, offset = _tag(message, offset)
        if wire == _GROUP:
            open_groups.append(inner)
        elif wire == _END_GROUP:
            if inner != open_groups.pop():
                raise Malformed("a group ends with the number of another group")
        else:
            _, offset = _value(message, offset, number=inner, wire=wire, depth=depth)
    return offset


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """Reads a number of at most ten bytes, and keeps its lower 64 bits, as Java does."""
    value = 0
    for index in range(10):
        if offset + index >= len(message):
            raise Malformed("the message ends within a number")
        byte = message[offset + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, offset + index + 1
    raise Malformed("a number of more than ten bytes")
