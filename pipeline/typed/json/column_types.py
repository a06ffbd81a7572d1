"""Writes the columns of a typed table as Spark writes types in JSON, and as the setting `schema` has them in DDL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.pipeline.typed.json.columns import Items, Kind, Struct

# All other names of Spark's types are the same in its JSON and in DDL, but for capital letters.
_DDL = {"long": "BIGINT", "integer": "INT"}


def struct_of(fields: Iterable[tuple[str, Any]], required: Iterable[str] = ()) -> Struct:
    """These columns as a `Struct`; each comes with its type in Spark's JSON form. `required`: the names of those
    that are NOT NULL.
    """
    return Struct({name: _kind_of(spark) for name, spark in fields}, frozenset(required))


def struct_of_fields(fields: Sequence[Mapping[str, Any]]) -> Struct:
    """These columns as a `Struct`; each comes as a struct field in Spark's JSON form."""
    required = [field["name"] for field in fields if not field.get("nullable", True)]
    return struct_of(((field["name"], field["type"]) for field in fields), required)


def _kind_of(spark: Any) -> Kind:
    if isinstance(spark, str):
        return spark
    if spark["type"] == "struct":
        return struct_of_fields(spark["fields"])
    if spark["type"] == "array":
        return Items(_kind_of(spark["elementType"]))
    # A map stays text, because nothing looks inside of it.
    return f"map<{_ddl(_kind_of(spark['keyType']))}, {_ddl(_kind_of(spark['valueType']))}>"


def spark_of(kind: Kind) -> Any:
    """The type as Spark writes it in JSON."""
    match kind:
        case Struct():
            fields = [
                {
                    "name": name,
                    "type": spark_of(column),
                    "nullable": name not in kind.required,
                    "metadata": {},
                }
                for name, column in kind.fields.items()
            ]
            return {"type": "struct", "fields": fields}
        case Items():
            return {"type": "array", "elementType": spark_of(kind.of), "containsNull": True}
        case _:
            return kind


_WORDS = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def words_of(spark: Any) -> str:
    """The type in the words of Spark's messages, such as `bigint`. `spark`: the type in Spark's JSON form."""
    if isinstance(spark, str):
        return _WORDS.get(spark, spark)
    match spark["type"]:
        case "struct":
            fields = (f"{each['name']}:{words_of(each['type'])}" for each in spark["fields"])
            return f"struct<{','.join(fields)}>"
        case "array":
            return f"array<{words_of(spark['elementType'])}>"
        case _:
            return f"map<{words_of(spark['keyType'])},{words_of(spark['valueType'])}>"


def has_not_null(fields: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the fields, or a part of one, is NOT NULL. `fields`: in Spark's JSON form."""
    return any(not field.get("nullable", True) or _has_not_null(field["type"]) for field in fields)


def _has_not_null(spark: Any) -> bool:
    if isinstance(spark, str):
        return False
    match spark["type"]:
        case "struct":
            return has_not_null(spark["fields"])
        case "array":
            return not spark.get("containsNull", True) or _has_not_null(spark["elementType"])
        case _:
            return not spark.get("valueContainsNull", True) or _has_not_null(spark["valueType"])


def nullable(spark: Any) -> Any:
    """The type as Spark writes it in JSON, with every part of it nullable."""
    if isinstance(spark, str):
        return spark
    match spark["type"]:
        case "struct":
            return {
                **spark,
                "fields": [
                    {**field, "type": nullable(field["type"]), "nullable": True} for field in spark["fields"]
                ],
            }
        case "array":
            return {**spark, "elementType": nullable(spark["elementType"]), "containsNull": True}
        case _:
            return {**spark, "valueType": nullable(spark["valueType"]), "valueContainsNull": True}


def ddl_of(columns: Struct) -> str:
    """The columns as DDL, as the setting `schema` has them."""
    return ", ".join(
        f"{_quoted(name)} {_ddl(kind)}{_not_null(name, columns)}" for name, kind in columns.fields.items()
    )


def _ddl(kind: Kind) -> str:
    match kind:
        case Struct():
            inner = ", ".join(
                f"{_quoted(name)}: {_ddl(column)}{_not_null(name, kind)}"
                for name, column in kind.fields.items()
            )
            return f"STRUCT<{inner}>"
        case Items():
            return f"ARRAY<{_ddl(kind.of)}>"
        case _:
            # Names within a map keep their letters.
            return _DDL.get(kind, kind.upper() if "<" not in kind else kind)


def _not_null(name: str, of: Struct) -> str:
    return " NOT NULL" if name in of.required else ""


def _quoted(name: str) -> str:
    # Spark's parser takes any name in backticks, in which a backtick is doubled.
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"
