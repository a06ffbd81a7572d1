"""How many values a Protobuf payload makes, counted in its bytes before any message is made.

A message within a message takes two bytes where it is empty, and makes a value for each of its fields.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.pipeline.typed.formats.value_limit import ValueLimit, ValuesLeft

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_LEAST = 2
"""The fewest bytes of a message or of a text within a message: its tag and its length."""
_LONGEST = 10
"""The most bytes of an integer."""
_HIGH = bytes(range(0x80, 0x100))
_INTEGER, _EIGHT, _SIZED, _GROUP, _GROUP_END, _FOUR = range(6)
"""How a field's bytes end (Protobuf's wire types)."""


@dataclass(frozen=True, slots=True)
class _Items:
    """A repeated field of scalars."""

    size: int | None
    """Bytes of each where several lie in one piece; 0: they are integers of one to ten bytes. None: each lies alone."""


@dataclass(frozen=True, slots=True)
class _Message:
    values: int
    """Those that an empty message makes."""
    parts: Mapping[int, _Message | _Items]
    """By field number. Other fields make no further value."""

    @property
    def a_byte(self) -> float:
        return max(map(_a_byte, self.parts.values()), default=0)


def _a_byte(part: _Message | _Items) -> float:
    return part.values / _LEAST + part.a_byte if isinstance(part, _Message) else 1


def limit_of(descriptor: Descriptor, single: Collection[str], most: int) -> ValueLimit:
    """The limit of how many values a payload of this message type may make.

    `single`: full names of message types that become one value, such as a timestamp. No message type may contain
    itself.
    """
    message = _message(descriptor, single)

    def count(content: bytes, most: int) -> int:
        walk = _Walk(content, ValuesLeft(most))
        with suppress(_Damaged):
            walk.message(message, 0, len(content))
        return most - walk.left.values

    return ValueLimit(most, message.a_byte, count)


def _message(descriptor: Descriptor, single: Collection[str]) -> _Message:
    if descriptor.full_name in single:
        return _Message(1, {})
    parts = {each.number: part for each in descriptor.fields if (part := _part(each, single)) is not None}
    if descriptor.GetOptions().map_entry:
        # An entry without a value gets an empty one.
        value = parts.get(2)
        own = value.values if isinstance(value, _Message) else 1
        return _Message(2 + own, {2: replace(value, values=0)} if isinstance(value, _Message) else {})
    # Each field counts even where it is absent: Python makes a value for each of them in each
    # message.
    return _Message(1 + len(descriptor.fields), parts)


def _part(field: FieldDescriptor, single: Collection[str]) -> _Message | _Items | None:
    from google.protobuf.descriptor import FieldDescriptor as Kind

    if field.message_type is not None:
        return _message(field.message_type, single)
    if not field.is_repeated:
        return None
    if field.type in (Kind.TYPE_STRING, Kind.TYPE_BYTES):
        return _Items(None)
    if field.type in (Kind.TYPE_DOUBLE, Kind.TYPE_FIXED64, Kind.TYPE_SFIXED64):
        return _Items(8)
    return _Items(4 if field.type in (Kind.TYPE_FLOAT, Kind.TYPE_FIXED32, Kind.TYPE_SFIXED32) else 0)


class _Damaged(Exception):
    """The payload is no message: its decoder will say so."""


@dataclass(slots=True)
class _Walk:
    """Walks over a payload, and counts."""

    content: bytes
    left: ValuesLeft

    def message(self, message: _Message, place: int, end: int) -> int:
        """Where the message ends: before `end` where it is a group."""
        self.left.take(message.values)
        unknown = 0  # groups around this place that the descriptors don't have
        while place < end:
            tag, place = self._integer(place)
            part = None if unknown else message.parts.get(tag >> 3)
            kind = tag & 7
            if kind == _GROUP_END:
                if not unknown:
                    return place
                unknown -= 1
            elif kind != _GROUP:
                place = self._field(part, kind, place, end)
            elif isinstance(part, _Message):
                place = self.message(part, place, end)
            else:
                unknown += 1
        return place

    def _field(self, part: _Message | _Items | None, kind: int, place: int, end: int) -> int:
        """Where the field ends."""
        if kind == _SIZED:
            size, place = self._integer(place)
            stop = place + size
        elif kind == _INTEGER:
            _, stop = self._integer(place)
        elif kind in (_EIGHT, _FOUR):
            stop = place + (8 if kind == _EIGHT else 4)
        else:
            raise _Damaged
        if stop > end:
            raise _Damaged
        if isinstance(part, _Items):
            self.left.take(_how_many(self.content[place:stop], part) if kind == _SIZED else 1)
        elif part is not None and kind == _SIZED:
            self.message(part, place, stop)
        return stop

    def _integer(self, place: int) -> tuple[int, int]:
        number = 0
        for shift, byte in enumerate(self.content[place : place + _LONGEST]):
            number |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                return number, place + shift + 1
        raise _Damaged


def _how_many(piece: bytes, items: _Items) -> int:
    if items.size is None:
        return 1
    return len(piece) // items.size if items.size else len(piece.translate(None, _HIGH))
