"""Protobuf messages as columns: the same field of many messages is read at once (`lanes`).

Messages that differ from most others are left to the library: lists that are much longer than others, a field
twice that isn't repeated, two members of a oneof, a field in another form than its type has, and all that isn't
as the descriptors say. Messages with required fields are left to the library, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.typed.columns.time_range import MICROS
from headrace.pipeline.typed.formats.lanes import (
    FEWEST,
    FixedNumbers,
    Lanes,
    NotInLanes,
    Payloads,
    SchemaPart,
    Values,
    as_map,
    entries_type,
    names_at,
    texts_or_bytes,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_INTEGER, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
"""How a field's bytes end (Protobuf's wire types)."""
_OF_TAG, _OF_SIZE = 5, 5
"""The most bytes of a tag, and of a size."""
_FEWEST_WITH_FIELD = 8
"""Lanes that are worth a step for a field that the others don't have at this place."""
_NANOS = 10**9
_SECONDS = (MICROS[0] // 1_000_000, MICROS[1] // 1_000_000)


@dataclass(frozen=True, slots=True)
class _Integer:
    arrow: pa.DataType
    low: int
    high: int
    """Others are left to the library, which has its own ways to make them fit."""
    has_sign_bit: bool = False
    """Whether the lowest bit is the sign."""

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        numbers = payloads.signed(lanes) if self.has_sign_bit else payloads.numbers(lanes).astype(np.int64)
        are_wrong = (numbers < self.low) | (numbers > self.high)
        payloads.leave(lanes, are_wrong)
        numbers[are_wrong] = 0
        whole: Any = pa.array(numbers)
        return whole.cast(pa.bool_()) if pa.types.is_boolean(self.arrow) else whole.cast(self.arrow)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of an enum by their numbers, from 0 on."""

    arrow: pa.DataType
    names: Values

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        numbers = payloads.numbers(lanes)
        are_wrong = numbers >= np.uint64(len(self.names))
        return names_at(payloads, lanes, numbers, are_wrong, self.names).cast(self.arrow)


@dataclass(frozen=True, slots=True)
class _Bytes:
    arrow: pa.DataType

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        sizes = payloads.numbers(lanes, _OF_SIZE).astype(np.int64)
        return texts_or_bytes(payloads, lanes, sizes, self.arrow)


@dataclass(frozen=True, slots=True)
class _Within:
    """A message within another one, or several numbers in one piece."""

    part: Any

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        sizes = payloads.numbers(lanes, _OF_SIZE).astype(np.int64)
        # While the part is read, its end is the lane's end: so nothing in it can read beyond it.
        around = payloads.end[lanes]
        are_wrong = sizes > around - payloads.place[lanes]
        payloads.leave(lanes, are_wrong)
        sizes[are_wrong] = 0
        payloads.end[lanes] = payloads.place[lanes] + sizes
        values = self.part(payloads, lanes)
        payloads.place[lanes] = payloads.end[lanes]
        payloads.end[lanes] = around
        return values


@dataclass(frozen=True, slots=True)
class _Packed:
    arrow: Any
    part: SchemaPart

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        pieces = _Pieces()
        open_ones = _open(payloads, lanes, np.arange(len(lanes)))
        while len(open_ones):
            pieces.add(open_ones, self.part(payloads, lanes[open_ones]))
            open_ones = _open(payloads, lanes, open_ones)
        return pieces.lists(len(lanes), self.arrow)


def _open(payloads: Payloads, lanes: Lanes, ones: Any) -> Any:
    """Those of the ones that have bytes left. Few of them are left to the library."""
    named = lanes[ones]
    unread = ones[(payloads.place[named] < payloads.end[named]) & ~payloads.is_left[named]]
    if 0 < len(unread) < FEWEST:
        payloads.is_left[lanes[unread]] = True
        return unread[:0]
    return unread


class _Pieces:
    """The values of one field, as they come."""

    def __init__(self) -> None:
        self._owners: list[Any] = []
        self._arrays: list[Any] = []

    def add(self, owners: Any, values: Any) -> None:
        # Packed numbers: several values of a repeated field come in one piece, and may come beside single ones.
        if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            owners, values = np.repeat(owners, pc.list_value_length(values).to_numpy()), values.flatten()
        self._owners.append(owners)
        self._arrays.append(values)

    def single(self, count: int, arrow: pa.DataType) -> tuple[Any, Any]:
        """A value for each owner, null where it has none; and how many it had."""
        if not self._owners:
            return pa.array([None] * count, arrow), np.zeros(count, np.int64)
        owners = np.concatenate(self._owners)
        times = np.bincount(owners, minlength=count)
        # The last value of a field wins, as Protobuf wants it: a later place overwrites an earlier one.
        places = np.full(count, -1)
        places[owners] = np.arange(len(owners))
        values = pa.concat_arrays(self._arrays)
        # Nearly always each lane has the field once, in the same place: then nothing has to be brought into order.
        if len(self._owners) == 1 and len(owners) == count:
            return values, times
        return values.take(pa.array(places, mask=places < 0)), times

    def lists(self, count: int, arrow: Any) -> Any:
        owners = np.concatenate([np.zeros(0, np.int64), *self._owners])
        lengths = np.bincount(owners, minlength=count)
        is_long = pa.types.is_large_list(arrow)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64() if is_long else pa.int32())
        values = pa.concat_arrays([pa.array([], arrow.value_type), *self._arrays])
        # By a sort that keeps the order of equals: the values of one list stay as they came.
        values = values.take(pa.array(np.argsort(owners, kind="stable")))
        arrays: Any = pa.LargeListArray if is_long else pa.ListArray
        return arrays.from_arrays(ends, values, arrow)


@dataclass(frozen=True, slots=True)
class _Field:
    is_repeated: bool
    entries: Any
    """The type of a map's entries, as a list of them; None where the field is no map."""
    default: Any
    """The value where a message lacks the field; None where that is null."""
    oneof: str | None


@dataclass(frozen=True, slots=True)
class Message:
    arrow: Any
    fields: Sequence[_Field | None]
    """For each column; None where the message has no such field."""
    parts: Mapping[int, tuple[int, SchemaPart]]
    """By tag: the place of the column, and how its values are read."""
    numbers: frozenset[int]
    """The numbers of the fields that the message has."""

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        pieces_by_place = [_Pieces() for _ in self.fields]
        open_ones = _open(payloads, lanes, np.arange(len(lanes)))
        while len(open_ones):
            tags = payloads.numbers(lanes[open_ones], _OF_TAG)
            self._step(payloads, lanes, open_ones, tags, pieces_by_place)
            open_ones = _open(payloads, lanes, open_ones)
        members: dict[str, Any] = {}
        arrays = []
        for column, field, pieces in zip(self.arrow, self.fields, pieces_by_place, strict=True):
            if field is None:
                arrays.append(pa.nulls(len(lanes), column.type))
            elif field.entries is not None:
                entries = pieces.lists(len(lanes), field.entries)
                _leave_without_value(payloads, lanes, entries)
                arrays.append(as_map(payloads, lanes, entries, column.type))
            elif field.is_repeated:
                arrays.append(pieces.lists(len(lanes), column.type))
            else:
                values, times = pieces.single(len(lanes), column.type)
                # The last value counts, and messages would be merged.
                payloads.leave(lanes, times > 1)
                if field.oneof is not None:
                    members[field.oneof] = members.get(field.oneof, 0) + times
                if field.default is not None and values.null_count:
                    values = pc.fill_null(values, pa.scalar(field.default, column.type))
                arrays.append(values)
        for times in members.values():
            # Of several members of a oneof the last one counts, which lanes don't tell: their order isn't kept.
            payloads.leave(lanes, times > 1)
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow))

    def _step(
        self, payloads: Payloads, lanes: Lanes, ones: Any, tags: Any, pieces_by_place: list[_Pieces]
    ) -> None:
        is_known = np.zeros(len(ones), dtype=bool)
        # Producers write fields in one order, so that at most places all lanes have the same tag.
        for tag in [int(tags[0])] if (tags == tags[0]).all() else np.unique(tags).tolist():
            if tag not in self.parts:
                continue
            has_it = tags == np.uint64(tag)
            is_known |= has_it
            owners = ones[has_it]
            if len(owners) < _FEWEST_WITH_FIELD:
                payloads.is_left[lanes[owners]] = True
                continue
            place, part = self.parts[tag]
            pieces_by_place[place].add(owners, part(payloads, lanes[owners]))
        if not is_known.all():
            self._pass_by(payloads, lanes[ones[~is_known]], tags[~is_known])

    def _pass_by(self, payloads: Payloads, lanes: Lanes, tags: Any) -> None:
        """Fields that the descriptors lack."""
        forms, numbers = tags & np.uint64(7), tags >> np.uint64(3)
        can_be = np.isin(forms, [_INTEGER, _EIGHT, _SIZED, _FOUR]) & (numbers > 0)
        # A known field in another form is a damaged payload, or one of another schema: the library decides.
        can_be &= ~np.isin(numbers, list(self.numbers))
        payloads.leave(lanes, ~can_be)
        for form, size in ((_EIGHT, 8), (_FOUR, 4)):
            fixed = lanes[can_be & (forms == form)]
            payloads.step(fixed, np.full(len(fixed), size, np.int64))
        payloads.numbers(lanes[can_be & (forms == _INTEGER)])
        sized = lanes[can_be & (forms == _SIZED)]
        payloads.step(sized, payloads.numbers(sized, _OF_SIZE).astype(np.int64))


@dataclass(frozen=True, slots=True)
class _Moments:
    """Messages of seconds and nanoseconds."""

    arrow: pa.DataType
    part: Message

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        both: Any = self.part(payloads, lanes)
        seconds, nanos = (part.to_numpy(zero_copy_only=False) for part in both.flatten())
        are_wrong = (seconds < _SECONDS[0]) | (seconds > _SECONDS[1]) | (nanos >= _NANOS)
        payloads.leave(lanes, are_wrong)
        micros = np.where(are_wrong, 0, seconds) * 1_000_000 + nanos // 1000
        return pa.array(micros, pa.int64()).cast(self.arrow)


@dataclass(frozen=True, slots=True)
class _Wrapped:
    """Messages around one value."""

    part: Message

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        whole: Any = self.part(payloads, lanes)
        return whole.field(0)


@dataclass(frozen=True, slots=True)
class MessageKinds:
    """Which Protobuf message types become a single value instead of a struct.

    `moment`: the full name of the message type that is a time. `wrapped`: the full names of those that wrap one
    value.
    """

    moment: str
    wrapped: frozenset[str]

    def message(self, descriptor: Descriptor, columns: Sequence[pa.Field[Any]]) -> Message:
        """The reader of messages of this type as columns. Raises NotInLanes where only the library can read them.
        `columns`: those of the table's files.
        """
        places = {column.name: place for place, column in enumerate(columns)}
        fields: list[_Field | None] = [None] * len(columns)
        parts: dict[int, tuple[int, SchemaPart]] = {}
        for described in descriptor.fields:
            # Whether a required field is there only the library checks.
            if described.name not in places or described.is_required:
                raise NotInLanes
            place = places[described.name]
            fields[place] = field = _field(described, columns[place].type)
            arrow: Any = columns[place].type if field.entries is None else field.entries
            of_one = arrow.value_type if described.is_repeated else arrow
            part, form = self._part(described, of_one)
            parts[described.number << 3 | form] = place, part
            if described.is_repeated and form != _SIZED:
                # Readers have to take both forms of repeated numbers, whatever the schema says of packing.
                parts[described.number << 3 | _SIZED] = place, _Within(_Packed(arrow, part))
        arrow_type = pa.struct([pa.field(column.name, column.type) for column in columns])
        return Message(
            arrow_type, fields, parts, frozenset(described.number for described in descriptor.fields)
        )

    def _part(self, field: FieldDescriptor, arrow: Any) -> tuple[SchemaPart, int]:
        """How one value is read, and how its bytes end."""
        inner = field.message_type
        if inner is None:
            return _scalar(field, arrow)
        if inner.full_name == self.moment:
            columns = [pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())]
            return _Within(_Moments(arrow, self.message(inner, columns))), _SIZED
        if inner.full_name in self.wrapped:
            return _Within(_Wrapped(self.message(inner, [pa.field("value", arrow)]))), _SIZED
        return _Within(self.message(inner, list(arrow))), _SIZED


def _leave_without_value(payloads: Payloads, lanes: Lanes, entries: Any) -> None:
    """An entry without a value has an empty message there, which only the library makes."""
    values = entries.flatten().field(1)
    if values.null_count:
        owners = np.repeat(np.arange(len(lanes)), np.diff(entries.offsets.to_numpy()))
        payloads.is_left[lanes[owners[values.is_null().to_numpy(zero_copy_only=False)]]] = True


def _field(field: FieldDescriptor, arrow: pa.DataType) -> _Field:
    entries = entries_type(arrow) if pa.types.is_map(arrow) else None
    default = None
    if not field.is_repeated and not field.has_presence:
        default = field.default_value
        if field.enum_type is not None:
            default = field.enum_type.values_by_number[default].name
    oneof = field.containing_oneof
    return _Field(field.is_repeated, entries, default, None if oneof is None else oneof.name)


def _scalar(field: FieldDescriptor, arrow: Any) -> tuple[SchemaPart, int]:
    from google.protobuf.descriptor import FieldDescriptor as Kind

    if field.type in (Kind.TYPE_STRING, Kind.TYPE_BYTES):
        return _Bytes(arrow), _SIZED
    if field.type == Kind.TYPE_ENUM:
        return _names(field, arrow), _INTEGER
    if form := _FORMS.get(field.type):
        return FixedNumbers(arrow, form), _EIGHT if form.endswith("8") else _FOUR
    if field.type not in _BOUNDS:
        raise NotInLanes
    return _Integer(arrow, *_BOUNDS[field.type]), _INTEGER


def _names(field: FieldDescriptor, arrow: Any) -> _Names:
    kinds: Any = field.enum_type
    names = {value.number: value.name for value in kinds.values}
    known = [names.get(number) for number in range(len(names))]
    # Other numbers become their digits, in the library.
    return _Names(arrow, pa.array(known[: known.index(None)] if None in known else known, pa.string()))


_FORMS = {1: "<f8", 2: "<f4", 6: "<u8", 7: "<u4", 15: "<i4", 16: "<i8"}
"""Protobuf's numbers of types whose values have a fixed size."""
_INT, _LONG = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_BOUNDS: Mapping[int, tuple[int, int, bool]] = {
    3: (*_LONG, False),
    4: (0, _LONG[1], False),
    5: (*_INT, False),
    8: (0, 1, False),
    13: (0, 2**32 - 1, False),
    17: (*_INT, True),
    18: (*_LONG, True),
}
"""Protobuf's numbers of types whose values are integers of one to ten bytes: the lowest and the highest, and whether
the lowest bit is the sign."""
