"""The columns of a typed table as Spark writes types: in JSON, and in DDL as `schema` in the settings has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.pipeline.core.json_columns import Items, Kind, Struct

_DDL = {"long": "BIGINT", "integer": "INT"}


def struct_of(fields: Iterable[tuple[str, Any]]) -> Struct:
    """Columns, each with its type as Spark writes it in JSON."""
    return Struct({name: _kind_of(spark) for name, spark in fields})


def _kind_of(spark: Any) -> Kind:
    if isinstance(spark, str):
        return spark
    if spark["type"] == "struct":
        return struct_of((each["name"], each["type"]) for each in spark["fields"])
    if spark["type"] == "array":
        return Items(_kind_of(spark["elementType"]))
    return f"map<{_ddl(_kind_of(spark['keyType']))}, {_ddl(_kind_of(spark['valueType']))}>"


def spark_of(kind: Kind) -> Any:
    """The type as Spark writes it in JSON."""
    match kind:
        case Struct():
            fields = [
                {"name": name, "type": spark_of(each), "nullable": True, "metadata": {}}
                for name, each in kind.fields.items()
            ]
            return {"type": "struct", "fields": fields}
        case Items():
            return {"type": "array", "elementType": spark_of(kind.of), "containsNull": True}
        case _:
            return kind


def ddl_of(columns: Struct) -> str:
    """The columns as `schema` in the settings has them."""
    return ", ".join(f"{_quoted(name)} {_ddl(kind)}" for name, kind in columns.fields.items())


def _ddl(kind: Kind) -> str:
    match kind:
        case Struct():
            inner = ", ".join(f"{_quoted(name)}: {_ddl(each)}" for name, each in kind.fields.items())
            return f"STRUCT<{inner}>"
        case Items():
            return f"ARRAY<{_ddl(kind.of)}>"
        case _:
            # Names within a map keep their letters.
            return _DDL.get(kind, kind.upper() if "<" not in kind else kind)


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"
