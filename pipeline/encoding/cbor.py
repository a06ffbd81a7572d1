"""The part of CBOR (RFC 8949) that AWS's protocols use: JSON's types, byte strings and tags.

The bytes come from outside, so they are checked: too large lengths, deep nesting, text that isn't UTF-8, and bytes
after the value are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

_UNSIGNED, _NEGATIVE, BYTES, TEXT, LIST, MAP, _TAG, _SIMPLE = range(8)
_DEEPEST = 32  # Kinesis's own requests are four deep
_INDEFINITE = 31
_BREAK = 0xFF
_WIDTHS = {24: ">B", 25: ">H", 26: ">I", 27: ">Q"}
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
_CONSTANTS = {20: False, 21: True, 22: None, 23: None}  # 23 is "undefined"


Body = bytes | bytearray
"""Bytes that came from outside. A bytearray saves its maker a copy; nobody changes it."""


class NotCborError(ValueError):
    """The bytes aren't exactly one CBOR value of a supported type."""


class Tagged(NamedTuple):
    """A CBOR value with a tag, which says what the value means, such as a time."""

    tag: int
    value: Any


class Raw(NamedTuple):
    """A value that is already written as CBOR bytes."""

    spelled: bytes


def encoded(value: Any) -> bytes:
    """Write a value as CBOR. All lengths are definite (known before the content)."""
    out = bytearray()
    _write(out, value)
    return bytes(out)


def decoded(body: Body) -> Any:
    """Read bytes that are exactly one value."""
    reader = CborReader(body)
    value = reader.value()
    # Bytes behind the value would mean that its length was read wrongly.
    if reader.at != len(body):
        raise NotCborError(f"{len(body) - reader.at} bytes follow the value")
    return value


def head(major: int, number: int) -> bytes:
    """Write the head of an item: its type, and its value or length."""
    lead = major << 5
    if number < 24:
        return bytes((lead | number,))
    if number < 1 << 8:
        return bytes((lead | 24, number))
    if number < 1 << 16:
        return struct.pack(">BH", lead | 25, number)
    if number < 1 << 32:
        return struct.pack(">BI", lead | 26, number)
    if number < 1 << 64:
        return struct.pack(">BQ", lead | 27, number)
    raise OverflowError(f"{number} takes more than 64 bits")


def _write(out: bytearray, value: Any) -> None:
    write = _WRITERS.get(type(value))
    if write is None:
        raise TypeError(f"Headrace's CBOR has no {type(value).__name__}")
    write(out, value)


def _write_whole(out: bytearray, value: int) -> None:
    out += head(_UNSIGNED, value) if value >= 0 else head(_NEGATIVE, -1 - value)


def _write_bytes(out: bytearray, value: bytes) -> None:
    out += head(BYTES, len(value))
    out += value


def _write_text(out: bytearray, value: str) -> None:
    raw = value.encode()
    out += head(TEXT, len(raw))
    out += raw


def _write_list(out: bytearray, value: list[Any]) -> None:
    out += head(LIST, len(value))
    for item in value:
        _write(out, item)


def _write_map(out: bytearray, value: Mapping[str, Any]) -> None:
    out += head(MAP, len(value))
    for key, item in value.items():
        _write(out, key)
        _write(out, item)


def _write_tagged(out: bytearray, value: Tagged) -> None:
    out += head(_TAG, value.tag)
    _write(out, value.value)


_WRITERS: dict[type, Callable[[bytearray, Any], None]] = {
    bool: lambda out, value: out.append(0xF5 if value else 0xF4),
    bytes: _write_bytes,
    dict: _write_map,
    float: lambda out, value: out.extend(struct.pack(">Bd", 0xFB, value)),
    int: _write_whole,
    list: _write_list,
    Raw: lambda out, value: out.extend(value.spelled),
    str: _write_text,
    Tagged: _write_tagged,
    type(None): lambda out, _: out.append(0xF6),
}


class CborReader:
    """Reads CBOR items from bytes, one after the other. All methods raise NotCborError."""

    __slots__ = ("_body", "at")

    def __init__(self, body: Body, at: int = 0) -> None:
        self._body = body
        self.at = at

    def items(self, major: int) -> Iterator[None]:
        """Read the head of a list or a map, then yield once for each item, and read the end. In its turn the
        caller reads the item; of a map, its key and its value.
        """
        (lead,) = self._take(1)
        if lead >> 5 != major:
            raise NotCborError(f"an item of the kind {lead >> 5} is where the kind {major} is expected")
        if lead & 0x1F == _INDEFINITE:
            while not self._broken_off():
                yield
        else:
            for _ in range(self._number(lead & 0x1F)):
                yield

    def value(self, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise NotCborError(f"nested deeper than {_DEEPEST}")
        (lead,) = self._take(1)
        major, info = lead >> 5, lead & 0x1F
        if major == _SIMPLE:
            return self._simple(info)
        if info == _INDEFINITE:
            return self._indefinite(major, depth)
        number = self._number(info)
        match major:
            case 0:
                return number
            case 1:
                return -1 - number
            case 2:
                return self._take(number)
            case 3:
                return self._text(number)
            case 4:
                return [self.value(depth + 1) for _ in range(number)]
            case 5:
                return dict(self._pair(depth) for _ in range(number))
            case _:
                return Tagged(number, self.value(depth + 1))

    def _indefinite(self, major: int, depth: int) -> Any:
        match major:
            case 2:
                return b"".join(self._chunks(BYTES))
            case 3:
                return "".join(self._chunks(TEXT))
            case 4:
                items = []
                while not self._broken_off():
                    items.append(self.value(depth + 1))
                return items
            case 5:
                found = {}
                while not self._broken_off():
                    key, value = self._pair(depth)
                    found[key] = value
                return found
            case _:
                raise NotCborError("a number or a tag can't be of indefinite length")

    def _chunks(self, major: int) -> list[Any]:
        chunks: list[Any] = []
        while not self._broken_off():
            (lead,) = self._take(1)
            # The format allows no string of indefinite length within another one.
            if lead >> 5 != major or lead & 0x1F == _INDEFINITE:
                raise NotCborError("a string's chunk is of another kind")
            length = self._number(lead & 0x1F)
            chunks.append(self._take(length) if major == BYTES else self._text(length))
        return chunks

    def key(self, depth: int = 0) -> str:
        """Read a key of a map."""
        key = self.value(depth + 1)
        if not isinstance(key, str):
            raise NotCborError(f"a map's key is {type(key).__name__}, not text")
        return key

    def _pair(self, depth: int) -> tuple[str, Any]:
        return self.key(depth), self.value(depth + 1)

    def _simple(self, info: int) -> Any:
        if info in _CONSTANTS:
            return _CONSTANTS[info]
        if info not in _FLOATS:
            raise NotCborError(f"the bits {info} spell no simple value of CBOR")
        form = _FLOATS[info]
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _number(self, info: int) -> int:
        if info < 24:
            return info
        form = _WIDTHS.get(info)
        if form is None:
            raise NotCborError(f"the bits {info} spell no length of CBOR")
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise NotCborError(f"text is no UTF-8: {error}") from error

    def _broken_off(self) -> bool:
        self._need(1)
        if self._body[self.at] != _BREAK:
            return False
        self.at += 1
        return True

    def _take(self, length: int) -> bytes:
        self._need(length)
        self.at += length
        return bytes(self._body[self.at - length : self.at])

    def _need(self, length: int) -> None:
        # Checked before memory is used for them. Counts of items need no check: each item takes at least one byte.
        left = len(self._body) - self.at
        if length > left:
            raise NotCborError(f"{length} bytes are announced and {left} bytes follow")
