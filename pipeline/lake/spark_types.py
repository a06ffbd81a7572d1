"""Spark's column types as Iceberg's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from pipeline.errors import BadSetting

_PLAIN: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def iceberg_type(spark: Any) -> IcebergType:
    """`spark`: a type as Spark writes it in JSON. Nested fields get ids that are only unique within this type: a table gives its own."""
    return _type(spark, count(1))


def _type(spark: Any, ids: Iterator[int]) -> IcebergType:
    if isinstance(spark, str):
        if match := _DECIMAL.fullmatch(spark):
            return DecimalType(int(match[1]), int(match[2]))
        if spark in _PLAIN:
            return _PLAIN[spark]
    elif spark["type"] == "struct":
        return StructType(
            *(
                NestedField(next(ids), each["name"], _type(each["type"], ids), required=False)
                for each in spark["fields"]
            )
        )
    elif spark["type"] == "array":
        return ListType(next(ids), _type(spark["elementType"], ids), element_required=False)
    elif spark["type"] == "map":
        key, value = _type(spark["keyType"], ids), _type(spark["valueType"], ids)
        return MapType(next(ids), key, next(ids), value, value_required=False)
    name = spark if isinstance(spark, str) else spark["type"]
    raise BadSetting(
        f"the type {name} has no counterpart in an Iceberg table; allowed: {', '.join(_PLAIN)}, decimal, struct, array, map"
    )


def is_same(one: IcebergType, other: IcebergType) -> bool:
    """Whether two types are the same, whatever the ids of their nested fields."""
    return bool(_bare(one) == _bare(other))


def _bare(kind: IcebergType) -> Any:
    match kind:
        case StructType():
            return [(each.name, _bare(each.field_type)) for each in kind.fields]
        case ListType():
            return ["list", _bare(kind.element_type)]
        case MapType():
            return ["map", _bare(kind.key_type), _bare(kind.value_type)]
        case _:
            return kind
