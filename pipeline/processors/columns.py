"""Converts the rows that a processor gives as JSON to the columns of its table."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.pipeline.processors.values import Row

_Read = Callable[[Any], Any]


class RowColumns:
    """The columns of the schema in the settings."""

    def __init__(self, fields: Iterable[pa.Field[Any]]) -> None:
        self._fields = {field.name: field for field in fields}
        self._readers = {name: reader_of(field.type) for name, field in self._fields.items()}

    def rows(self, rows: Sequence[Any]) -> tuple[Row, ...]:
        """These rows of a processor, with values in the types of the table's columns. Raises ValueError for a row
        that doesn't fit.
        """
        return tuple(self._row(row) for row in rows)

    def _row(self, row: Any) -> Row:
        if not isinstance(row, Mapping):
            raise ValueError(f"a row is an object of columns and values, and {row!r:.100} isn't")  # noqa: TRY004 - as for other wrong rows
        if strange := sorted(row.keys() - self._fields.keys()):
            known = ", ".join(self._fields) or "none"
            raise ValueError(f"the schema has no column {strange[0]} (it has {known})")
        return {name: self._value(name, row.get(name)) for name in self._fields}

    def _value(self, name: str, given: Any) -> Any:
        if given is None:
            if not self._fields[name].nullable:
                raise ValueError(f"the column {name} is NOT NULL, and a row has no value there")
            return None
        try:
            value = self._readers[name](given)
            # Arrow knows the limits of each type, such as the digits of a decimal.
            pa.scalar(value, self._fields[name].type)
        except (
            ValueError,
            TypeError,
            ArithmeticError,
            AttributeError,
            pa.ArrowException,
            OverflowError,
        ) as error:
            kind = self._fields[name].type
            raise ValueError(
                f"the column {name} is {kind}, and {given!r:.100} can't be one ({error})"
            ) from error
        return value

    def arrays(self, rows: Sequence[Row]) -> list[pa.Array[Any]]:
        return [pa.array([row[name] for row in rows], field.type) for name, field in self._fields.items()]

    @property
    def names(self) -> list[str]:
        return list(self._fields)


def reader_of(kind: pa.DataType) -> _Read:
    """A function that converts a JSON value to this type."""
    if pa.types.is_boolean(kind):
        return _exactly(bool)
    if pa.types.is_integer(kind):
        return _exactly(int)
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _exactly(str)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return lambda given: base64.b64decode(given, validate=True)
    if isinstance(kind, pa.Decimal128Type):
        step = Decimal(1).scaleb(-kind.scale)
        return lambda given: Decimal(str(given)).quantize(step)
    if isinstance(kind, pa.TimestampType):
        return _moment if kind.tz else lambda given: datetime.fromisoformat(given).replace(tzinfo=None)
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_time(kind):
        return time.fromisoformat
    return _nested(kind)


def _nested(kind: pa.DataType) -> _Read:
    if isinstance(kind, pa.StructType):
        inner = RowColumns(list(kind))
        return lambda given: inner.rows([given])[0]
    if isinstance(kind, pa.MapType):
        key, item = reader_of(kind.key_type), _or_null(reader_of(kind.item_type))
        return lambda given: [(key(name), item(value)) for name, value in given.items()]
    if isinstance(kind, (pa.ListType, pa.LargeListType)):
        element = _or_null(reader_of(kind.value_type))
        return lambda given: [element(value) for value in given]
    raise TypeError(f"a processor can't write the type {kind}")


def _exactly(kind: type) -> _Read:
    def read(given: Any) -> Any:
        # A bool is an int for Python, and no whole number for people.
        if not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
            raise TypeError(f"{kind.__name__} is needed")
        return given

    return read


def _or_null(read: _Read) -> _Read:
    return lambda given: None if given is None else read(given)


def _moment(given: str) -> datetime:
    moment = datetime.fromisoformat(given)
    # Without a zone it is UTC, as Spark's sessions have it here.
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
