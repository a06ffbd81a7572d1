"""Times that a typed table can hold: those of the years 1 to 9999.

Spark makes times up to the year 294247, such as of milliseconds that it reads as seconds. The bounds in Iceberg's
metadata, and every reader in Python, end with the year 9999. So a row with a time beyond these years must never get
into a file: no commit could name the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.errors import WrongShape

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_DAYS = (-719_162, 2_932_896)
"""The first and the last day of the years 1 to 9999, counted from 1970-01-01."""
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
_NTZ = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")


def time_trouble(row: Column, schema: StructType) -> Column:
    """On Spark: why this row of JSON can't be in a typed table, or null."""
    from pyspark.sql import functions as F  # noqa: N812

    reasons = [
        F.when(
            is_outside,
            F.lit(
                f"the column {field.name} has a time before the year 1 or after the year 9999; "
                "a number is read as seconds since 1970"
            ),
        )
        for field in schema.fields
        if (is_outside := _outside(row[field.name], field.dataType)) is not None
    ]
    return F.coalesce(*reasons) if reasons else F.lit(None).cast("string")


def _outside(value: Column, kind: DataType) -> Column | None:
    """Whether the value has a time beyond the years; None for a type without times."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    match kind:
        case T.TimestampType():
            return ~F.unix_micros(value).between(*_MICROS)
        case T.TimestampNTZType():
            return ~value.between(*(F.lit(bound).cast("timestamp_ntz") for bound in _NTZ))
        case T.DateType():
            return ~F.unix_date(value).between(*_DAYS)
        case T.ArrayType():
            return _any_outside(value, kind.elementType)
        case T.MapType():
            outsides = [
                _any_outside(F.map_keys(value), kind.keyType),
                _any_outside(F.map_values(value), kind.valueType),
            ]
        case T.StructType():
            outsides = [_outside(value[field.name], field.dataType) for field in kind.fields]
        case _:
            return None
    checks = [F.coalesce(outside, F.lit(False)) for outside in outsides if outside is not None]
    return reduce(or_, checks) if checks else None


def _any_outside(values: Column, kind: DataType) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812

    if _outside(values, kind) is None:
        return None
    return F.exists(values, lambda element: _known(_outside(element, kind)))


def _known(outside: Column | None) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.lit(False) if outside is None else F.coalesce(outside, F.lit(False))


def check_times(names: Sequence[str], columns: Sequence[pa.Array[Any]]) -> None:
    """Refuse rows with a time beyond the years before they are written. JSON has such rows set aside; this is for a
    function of the user's own."""
    for name, column in zip(names, columns, strict=True):
        for times in _times_in(column):
            first, last = _DAYS if pa.types.is_date(times.type) else _MICROS
            ends: Any = pc.min_max(times.cast(pa.int32() if pa.types.is_date(times.type) else pa.int64()))
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is not None and not first <= low <= high <= last:
                raise WrongShape(
                    f"a row came back with a time in the column {name} that is before the year 1 or after the year "
                    "9999. Nothing was committed; give such rows a quarantine_reason, or correct their times"
                )


def _times_in(column: Any) -> Iterator[pa.Array[Any]]:
    """All arrays of times within a column."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        yield column
    elif pa.types.is_struct(kind):
        for condition in column.flatten():
            yield from _times_in(condition)
    elif pa.types.is_map(kind):
        entries = column.filter(column.is_valid())
        yield from _times_in(entries.keys)
        yield from _times_in(entries.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _times_in(column.flatten())
