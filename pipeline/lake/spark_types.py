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

from headrace.pipeline.errors import BadSetting

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
        f"the type {name} has no counterpart in an Iceberg table; allowed: {', '.join(_PLAIN)}, decimal, struct, array, map. Nothing was "
        "parsed; name another type in the schema of the target"
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


def spark_type(iceberg: IcebergType) -> Any:
    """The type as Spark writes it in JSON; None where Spark can't read it out of JSON."""
    match iceberg:
        case DecimalType():
            return f"decimal({iceberg.precision},{iceberg.scale})"
        case StructType():
            inner = [(each.name, spark_type(each.field_type)) for each in iceberg.fields]
            fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in inner]
            return None if any(kind is None for _, kind in inner) else {"type": "struct", "fields": fields}
        case ListType():
            of = spark_type(iceberg.element_type)
            return None if of is None else {"type": "array", "elementType": of, "containsNull": True}
        case MapType():
            key, value = spark_type(iceberg.key_type), spark_type(iceberg.value_type)
            if key is None or value is None:
                return None
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case _:
            return _OF_ICEBERG.get(iceberg)


_OF_ICEBERG = {kind: name for name, kind in _PLAIN.items() if name not in ("byte", "short")}


def promotions(there: IcebergType, wanted: IcebergType, path: tuple[str, ...] = ()) -> Iterator[Promotion]:
    """The parts of a column that have to be promoted before it has all values of the wanted type. Raises TypeError where another type is there.

    A wider type may be there than the wanted one, and a struct may have more fields.
    """
    match there, wanted:
        case StructType(), StructType():
            for each in wanted.fields:
                inner = next((field for field in there.fields if field.name == each.name), None)
                if inner is None:
                    raise TypeError(each.name)
                yield from promotions(inner.field_type, each.field_type, (*path, each.name))
        case ListType(), ListType():
            yield from promotions(there.element_type, wanted.element_type, (*path, "element"))
        case MapType(), MapType() if is_same(there.key_type, wanted.key_type):
            yield from promotions(there.value_type, wanted.value_type, (*path, "value"))
        case _ if is_same(there, wanted) or _is_wider(there, wanted):
            return
        case _ if _is_wider(wanted, there):
            yield path, wanted
        case _:
            raise TypeError(str(there))


Promotion = tuple[tuple[str, ...], IcebergType]


def _is_wider(wide: IcebergType, narrow: IcebergType) -> bool:
    """Whether Iceberg may promote the one to the other."""
    match narrow, wide:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return narrow.scale == wide.scale and narrow.precision < wide.precision
        case _:
            return False


def has_more_fields(there: IcebergType, wanted: IcebergType) -> bool:
    """Whether a struct that is there has fields that the wanted one lacks, or in another order."""
    match there, wanted:
        case StructType(), StructType():
            names = [each.name for each in there.fields] != [each.name for each in wanted.fields]
            return names or any(
                has_more_fields(one.field_type, other.field_type)
                for one, other in zip(there.fields, wanted.fields, strict=True)
            )
        case ListType(), ListType():
            return has_more_fields(there.element_type, wanted.element_type)
        case MapType(), MapType():
            return has_more_fields(there.value_type, wanted.value_type)
        case _:
            return False
