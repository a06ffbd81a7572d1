"""How each column of a typed table is read out of JSON: from Spark's name of its type to a `ValueKind`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from headrace.pipeline.typed.json.nested import Lists, Maps, Objects, ValueKind
from headrace.pipeline.typed.json.numbers import WHOLE, Decimals, Real, whole
from headrace.pipeline.typed.json.times import Dates, Times
from headrace.pipeline.typed.json.unfit import Values, converted

_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


@dataclass(frozen=True, slots=True)
class Plain:
    """Reads values that either have the column's own type or don't fit: booleans, and bytes in base64."""

    arrow: pa.DataType
    exact: Any
    wide: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wide", self.exact)

    def array(self, values: Sequence[Any]) -> Values:
        return pa.array(values, self.arrow)


@dataclass(frozen=True, slots=True)
class TextValues:
    """Reads values of a text column: a JSON string as its text, any other value as its JSON text."""

    arrow: pa.DataType
    exact: Any = str | None
    wide: Any = msgspec.Raw

    def array(self, values: Sequence[Any]) -> Values:
        try:
            return pa.array(values, self.arrow)
        except pa.ArrowException:
            return pa.array(converted(values, _text), self.arrow)


def _text(value: Any) -> str | None:
    # Arrow takes texts as they are. Other values keep the spelling that the payload has, which a value of Python would
    # lose.
    if isinstance(value, str):
        return value
    token = bytes(value)
    match token[:1]:
        case b'"':
            return msgspec.json.decode(token, type=str)
        case b"{" | b"[":
            return msgspec.json.format(token, indent=-1).decode()
        case _:
            return None if token == b"null" else token.decode()


def columns_kind(
    fields: Sequence[Mapping[str, Any]], columns: Sequence[pa.Field[Any]], *, is_whole: bool = False
) -> Objects:
    """The reader of JSON objects as rows of these columns.

    `fields`: the columns that payloads make, in Spark's JSON form. `columns`: those of the table's files.
    `is_whole`: whether a payload with a field that has no column doesn't fit.
    """
    types = {field["name"]: field["type"] for field in fields}
    return _objects(types, columns, is_whole=is_whole)


def _objects(types: Mapping[str, Any], columns: Sequence[pa.Field[Any]], *, is_whole: bool) -> Objects:
    parts = [
        (
            column.name,
            _kind(types[column.name], column.type, is_whole=is_whole) if column.name in types else None,
        )
        for column in columns
    ]
    fields = [
        pa.field(column.name, column.type if kind is None else kind.arrow)
        for column, (_, kind) in zip(columns, parts, strict=True)
    ]
    return Objects(pa.struct(fields), parts, is_whole)


def _kind(spark: Any, arrow: Any, *, is_whole: bool) -> ValueKind:
    """How JSON values become a part of a column. Whether a part may be null is judged later, for all formats
    (`not_null`): here each may be."""
    if isinstance(spark, str):
        return _scalar(spark, arrow)
    match spark["type"]:
        case "struct":
            types = {part["name"]: part["type"] for part in spark["fields"]}
            return _objects(types, list(arrow), is_whole=is_whole)
        case "array":
            items = _kind(spark["elementType"], arrow.value_type, is_whole=is_whole)
            part = pa.field(arrow.value_field.name, items.arrow)
            is_long = pa.types.is_large_list(arrow)
            return Lists(pa.large_list(part) if is_long else pa.list_(part), items)
        case _:
            items = _kind(spark["valueType"], arrow.item_type, is_whole=is_whole)
            return Maps(pa.map_(arrow.key_type, pa.field(arrow.item_field.name, items.arrow)), items)


def _scalar(spark: str, arrow: pa.DataType) -> ValueKind:
    if spark in WHOLE:
        return whole(spark, arrow)
    if decimal := _DECIMAL.fullmatch(spark):
        return Decimals(arrow, int(decimal[1]), int(decimal[2]))
    match spark:
        case "float" | "double":
            return Real(arrow, spark == "float")
        case "boolean":
            return Plain(arrow, bool | None)
        case "binary":
            return Plain(arrow, bytes | None)
        case "date":
            return Dates(arrow)
        case "timestamp" | "timestamp_ntz":
            return Times(arrow, spark == "timestamp_ntz")
        case _:
            return TextValues(arrow)
