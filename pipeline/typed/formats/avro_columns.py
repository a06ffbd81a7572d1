"""Avro payloads as columns: each part of a schema reads the same field of many payloads at once (`lanes`).

Payloads that differ from most others are left to the library: those with much longer lists or maps, and those
that aren't as the schema says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.typed.columns.time_range import DAYS, MICROS
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

_WIDEST = 16
"""Bytes of a decimal."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """Numbers within bounds, each times a factor, such as of the milliseconds of a time."""

    arrow: pa.DataType
    low: int | None = None
    high: int | None = None
    times: int = 1

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        numbers = payloads.signed(lanes)
        if self.low is not None:
            are_wrong = (numbers < self.low) | (numbers > self.high)
            payloads.leave(lanes, are_wrong)
            # Any number that fits will do: the lane is left, and the library reads it anew.
            numbers[are_wrong] = 0
        kind = pa.int32() if pa.types.is_date(self.arrow) else self.arrow
        return pa.array(numbers * self.times).cast(kind).cast(self.arrow)


@dataclass(frozen=True, slots=True)
class _Boolean:
    arrow: pa.DataType

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        numbers = payloads.blocks(lanes, 1)[:, 0]
        payloads.leave(lanes, numbers > 1)
        return pa.array(numbers == 1)


@dataclass(frozen=True, slots=True)
class _Bytes:
    arrow: pa.DataType
    size: int | None = None
    """The bytes of each value; None where its size comes first."""

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        fixed = self.size
        sizes = payloads.signed(lanes) if fixed is None else np.full(len(lanes), fixed, np.int64)
        return texts_or_bytes(payloads, lanes, sizes, self.arrow)


@dataclass(frozen=True, slots=True)
class _Symbols:
    arrow: pa.DataType
    names: Values

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        numbers = payloads.signed(lanes)
        are_wrong = (numbers < 0) | (numbers >= len(self.names))
        return names_at(payloads, lanes, numbers, are_wrong, self.names).cast(self.arrow)


@dataclass(frozen=True, slots=True)
class _Decimals:
    arrow: pa.DataType
    precision: int
    scale: int
    size: int | None = None

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        fixed = self.size
        sizes = payloads.signed(lanes) if fixed is None else np.full(len(lanes), fixed, np.int64)
        are_wrong = (sizes < 1) | (sizes > _WIDEST)
        payloads.leave(lanes, are_wrong)
        sizes[are_wrong] = 0
        starts = payloads.step(lanes, sizes)
        # Avro writes as few bytes as a number needs, and its first bit is the sign.
        fill = np.where(payloads.data[starts] >= 0x80, 0xFF, 0).astype(np.uint8)
        fill[sizes == 0] = 0
        # Arrow has the lowest byte first.
        rows = np.empty((len(lanes), _WIDEST), np.uint8)
        for place in range(_WIDEST):
            is_its = place < sizes
            rows[:, place] = np.where(is_its, payloads.data[starts + np.maximum(sizes - 1 - place, 0)], fill)
        kind = pa.decimal128(38, self.scale)
        values: Any = pa.Array.from_buffers(kind, len(lanes), [None, pa.py_buffer(rows.tobytes())])
        # The bytes may hold more digits than the schema allows.
        most = pa.scalar((10**self.precision - 1), pa.decimal128(38, 0)).as_py().scaleb(-self.scale)
        fits: Any = pc.and_(
            pc.less_equal(values, pa.scalar(most, kind)), pc.greater_equal(values, pa.scalar(-most, kind))
        )
        payloads.leave(lanes, ~fits.to_numpy(zero_copy_only=False))
        return pc.if_else(fits, values, None).cast(self.arrow)


@dataclass(frozen=True, slots=True)
class _Optional:
    part: SchemaPart
    arrow: pa.DataType
    null: int
    """The place of null in the union."""

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        numbers = payloads.signed(lanes)
        # The number of a union's branch comes first, and a damaged payload may name one that isn't there.
        payloads.leave(lanes, (numbers != 0) & (numbers != 1))
        is_there = numbers == 1 - self.null
        # Only the lanes with a value go on: the others have no bytes there, and would read the next
        # field's.
        holders = lanes[is_there]
        if len(holders) == len(lanes):
            return self.part(payloads, lanes)
        if not len(holders):
            return pa.array([None] * len(lanes), self.arrow)
        places = np.cumsum(is_there) - 1
        return self.part(payloads, holders).take(pa.array(places, mask=~is_there))


@dataclass(frozen=True, slots=True)
class Record:
    """Reads Avro records as an Arrow struct.

    `parts`: the readers of the fields in the order in which they were written, each with its place among the
    columns; None as the place of a field that is no column.
    """

    arrow: Any
    parts: Sequence[tuple[SchemaPart, int]]

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        values_by_place = {place: part(payloads, lanes) for part, place in self.parts}
        arrays = [
            values_by_place[place] if place in values_by_place else pa.nulls(len(lanes), column.type)
            for place, column in enumerate(self.arrow)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow))


@dataclass(frozen=True, slots=True)
class _Items:
    arrow: Any
    part: SchemaPart

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        owners, items = [np.zeros(0, np.int64)], [pa.array([], self.arrow.value_type)]
        lengths = np.zeros(len(lanes), np.int64)
        left = np.zeros(len(lanes), np.int64)
        open_ones = np.arange(len(lanes))
        while len(open_ones):
            # A lane whose block is done reads the number of items in its next one; none, where the list ends.
            done = open_ones[left[open_ones] == 0]
            left[done] = self._in_block(payloads, lanes[done])
            open_ones = open_ones[left[open_ones] > 0]
            # A few long lists would need a step of numpy for each of their items, with almost empty
            # lanes.
            if 0 < len(open_ones) < FEWEST:
                payloads.is_left[lanes[open_ones]] = True
                break
            if len(open_ones):
                owners.append(open_ones)
                items.append(self.part(payloads, lanes[open_ones]))
                left[open_ones] -= 1
                lengths[open_ones] += 1
                open_ones = open_ones[~payloads.is_left[lanes[open_ones]]]
        order = np.argsort(np.concatenate(owners), kind="stable")
        ends: Any = np.concatenate([[0], np.cumsum(lengths)])
        values = pa.concat_arrays(items).take(pa.array(order))
        arrays: Any = pa.LargeListArray if pa.types.is_large_list(self.arrow) else pa.ListArray
        kind = pa.int64() if pa.types.is_large_list(self.arrow) else pa.int32()
        return arrays.from_arrays(pa.array(ends, kind), values, self.arrow)

    @staticmethod
    def _in_block(payloads: Payloads, lanes: Lanes) -> Any:
        if not len(lanes):
            return np.zeros(0, np.int64)
        numbers = payloads.signed(lanes)
        # A block that tells its bytes, too, and one that claims to have more items than bytes.
        are_wrong = (numbers < 0) | (numbers > payloads.end[lanes] - payloads.place[lanes])
        payloads.leave(lanes, are_wrong)
        numbers[are_wrong | payloads.is_left[lanes]] = 0
        return numbers


@dataclass(frozen=True, slots=True)
class _Map:
    arrow: Any
    entries: _Items

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        return as_map(payloads, lanes, self.entries(payloads, lanes), self.arrow)


def record_part(schema: Any, named: Mapping[str, Any], columns: Sequence[pa.Field[Any]]) -> Record:
    """The reader of records of this Avro schema as columns. Raises NotInLanes where only the library can read the
    schema. `columns`: those of the table's files.
    """
    places = {column.name: place for place, column in enumerate(columns)}
    parts: list[tuple[SchemaPart, int]] = []
    for field in schema["fields"]:
        if field["name"] not in places:
            raise NotInLanes
        place = places[field["name"]]
        parts.append((_part(field["type"], named, columns[place].type), place))
    return Record(pa.struct([pa.field(column.name, column.type) for column in columns]), parts)


def _part(schema: Any, named: Mapping[str, Any], arrow: Any) -> SchemaPart:
    match schema:
        case [one, other] if "null" in (one, other):
            null = 0 if one == "null" else 1
            return _Optional(_part(other if null == 0 else one, named, arrow), arrow, null)
        case str() if schema in named:
            return _part(named[schema], named, arrow)
        case str():
            return _scalar({"type": schema}, arrow)
        case {"type": "record"}:
            return record_part(schema, named, list(arrow))
        case {"type": "array", "items": items}:
            return _Items(arrow, _part(items, named, arrow.value_type))
        case {"type": "map", "values": values}:
            lists = entries_type(arrow)
            key, value = _Bytes(arrow.key_type), _part(values, named, arrow.item_type)
            return _Map(arrow, _Items(lists, Record(lists.value_type, [(key, 0), (value, 1)])))
        case {"type": dict() | list() as inner}:
            return _part(inner, named, arrow)
        case {"type": str() as name} if name in named:
            return _part(named[name], named, arrow)
        case dict():
            return _scalar(schema, arrow)
        case _:
            raise NotInLanes


def _scalar(schema: Mapping[str, Any], arrow: pa.DataType) -> SchemaPart:
    kind, logical = schema["type"], schema.get("logicalType", "")
    if logical == "decimal":
        return _Decimals(arrow, schema["precision"], schema.get("scale", 0), schema.get("size"))
    if kind in ("int", "long"):
        low, high, times = _BOUNDS.get((kind, logical.removeprefix("local-")), _BOUNDS[kind, ""])
        return _Whole(arrow, low, high, times)
    match kind:
        case "float" | "double":
            return FixedNumbers(arrow, "<f4" if kind == "float" else "<f8")
        case "boolean":
            return _Boolean(arrow)
        case "bytes" | "string":
            return _Bytes(arrow)
        case "fixed":
            return _Bytes(arrow, schema["size"])
        case "enum":
            return _Symbols(arrow, pa.array(schema["symbols"], pa.string()))
        case _:
            raise NotInLanes


_BOUNDS: Mapping[tuple[str, str], tuple[int | None, int | None, int]] = {
    ("int", ""): (-(2**31), 2**31 - 1, 1),
    ("int", "date"): (*DAYS, 1),
    ("long", ""): (None, None, 1),
    ("long", "timestamp-millis"): (-(-MICROS[0] // 1000), MICROS[1] // 1000, 1000),
    ("long", "timestamp-micros"): (*MICROS, 1),
}
"""The lowest and the highest number of a type with its logical type, and what makes microseconds of it."""
