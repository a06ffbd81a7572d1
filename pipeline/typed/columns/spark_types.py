"""Converts Spark's column types to Iceberg's and back, and compares them."""

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
    """Spark's type as Iceberg's.

    `spark`: a type as Spark writes it in JSON. Nested fields get ids that are only unique within this type: a table
    gives its own.
    """
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
                NestedField(
                    next(ids),
                    field["name"],
                    _type(field["type"], ids),
                    doc=field.get("metadata", {}).get("comment"),
                    required=not field.get("nullable", True),
                )
                for field in spark["fields"]
            )
        )
    elif spark["type"] == "array":
        is_required = not spark.get("containsNull", True)
        return ListType(next(ids), _type(spark["elementType"], ids), element_required=is_required)
    elif spark["type"] == "map":
        key, value = _type(spark["keyType"], ids), _type(spark["valueType"], ids)
        is_required = not spark.get("valueContainsNull", True)
        return MapType(next(ids), key, next(ids), value, value_required=is_required)
    name = spark if isinstance(spark, str) else spark["type"]
    raise BadSetting(
        f"the type {name} has no counterpart in an Iceberg table; allowed: {', '.join(_PLAIN)}, decimal, struct, "
        "array, map. Nothing was parsed; name another type in the schema of the target"
    )


def is_same(first: IcebergType, second: IcebergType) -> bool:
    """Whether two types are the same, whatever the ids of their nested fields."""
    return bool(_bare(first) == _bare(second))


def _bare(kind: IcebergType) -> Any:
    match kind:
        case StructType():
            return [(field.name, _bare(field.field_type)) for field in kind.fields]
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
            fields = [spark_field(field) for field in iceberg.fields]
            return (
                None
                if any(field["type"] is None for field in fields)
                else {"type": "struct", "fields": fields}
            )
        case ListType():
            of = spark_type(iceberg.element_type)
            may_be_null = not iceberg.element_required
            return None if of is None else {"type": "array", "elementType": of, "containsNull": may_be_null}
        case MapType():
            key, value = spark_type(iceberg.key_type), spark_type(iceberg.value_type)
            if key is None or value is None:
                return None
            may_be_null = not iceberg.value_required
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": may_be_null}
        case _:
            return _OF_ICEBERG.get(iceberg)


def spark_field(iceberg: NestedField) -> dict[str, Any]:
    """A column as a field of a struct, as Spark writes it in JSON. Its type is None where Spark can't read it out of
    JSON."""
    return {
        "name": iceberg.name,
        "type": spark_type(iceberg.field_type),
        "nullable": not iceberg.required,
        "metadata": {},
    }


_OF_ICEBERG = {kind: name for name, kind in _PLAIN.items() if name not in ("byte", "short")}


def nullability(
    present: IcebergType, desired: IcebergType, path: tuple[str, ...], *, may_have_more: bool
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The parts of a column that are NOT NULL in one of the two types and nullable in the other, each with
    whether the `desired` type has it NOT NULL.

    `may_have_more`: parts that only the `present` type has stay as they are.
    """
    match present, desired:
        case StructType(), StructType():
            inner = {f.name: f for f in desired.fields}
            for field in present.fields:
                if field.name in inner:
                    if field.required != inner[field.name].required:
                        yield (*path, field.name), inner[field.name].required
                    yield from nullability(
                        field.field_type,
                        inner[field.name].field_type,
                        (*path, field.name),
                        may_have_more=may_have_more,
                    )
                elif field.required and not may_have_more:
                    yield (*path, field.name), False
        case ListType(), ListType():
            if present.element_required != desired.element_required:
                yield (*path, "element"), desired.element_required
            below = (*path, "element")
            yield from nullability(
                present.element_type, desired.element_type, below, may_have_more=may_have_more
            )
        case MapType(), MapType():
            if present.value_required != desired.value_required:
                yield (*path, "value"), desired.value_required
            below = (*path, "value")
            yield from nullability(present.value_type, desired.value_type, below, may_have_more=may_have_more)


def promotions(present: IcebergType, desired: IcebergType, path: tuple[str, ...] = ()) -> Iterator[Promotion]:
    """The parts of a column whose type has to be promoted (int to long, float to double), so that the column can
    hold all values of the `desired` type. Raises TypeError where the `present` type can't be promoted to it.

    The `present` type may be wider than the desired one, and a struct may have more fields.
    """
    match present, desired:
        case StructType(), StructType():
            for field in desired.fields:
                inner = next((f for f in present.fields if f.name == field.name), None)
                if inner is None:
                    raise TypeError(field.name)
                yield from promotions(inner.field_type, field.field_type, (*path, field.name))
        case ListType(), ListType():
            yield from promotions(present.element_type, desired.element_type, (*path, "element"))
        case MapType(), MapType() if is_same(present.key_type, desired.key_type):
            yield from promotions(present.value_type, desired.value_type, (*path, "value"))
        case _ if is_same(present, desired) or _is_wider(present, desired):
            return
        case _ if _is_wider(desired, present):
            yield path, desired
        case _:
            raise TypeError(str(present))


Promotion = tuple[tuple[str, ...], IcebergType]


def _is_wider(wide: IcebergType, narrow: IcebergType) -> bool:
    """Whether Iceberg may promote the one to the other."""
    match narrow, wide:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        # Iceberg widens the precision of a decimal only. Another scale would change the values that
        # are there.
        case DecimalType(), DecimalType():
            return narrow.scale == wide.scale and narrow.precision < wide.precision
        case _:
            return False


def has_more_fields(present: IcebergType, desired: IcebergType) -> bool:
    """Whether a struct of the `present` type has fields that the `desired` one lacks, or has its fields in
    another order.
    """
    match present, desired:
        case StructType(), StructType():
            names = [field.name for field in present.fields] != [field.name for field in desired.fields]
            return names or any(
                has_more_fields(present_field.field_type, desired_field.field_type)
                for present_field, desired_field in zip(present.fields, desired.fields, strict=True)
            )
        case ListType(), ListType():
            return has_more_fields(present.element_type, desired.element_type)
        case MapType(), MapType():
            return has_more_fields(present.value_type, desired.value_type)
        case _:
            return False
