"""Which columns a JSON payload doesn't fit, for the reason in the quarantine table.

Spark's from_json leaves a column null where the value has another type, and keeps the text of such a payload. So a column that is null, and of
which the text has a value, is one that the payload doesn't fit. Only payloads that go to quarantine are read this second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_MOST_NAMED = 5
"""Columns that a reason names."""
_MOST_OF_TYPE = 60
"""Characters of a column's type: that of a struct names all its parts."""


def misfit(row: Column, text: Column, schema: StructType) -> Column:
    """On Spark: the columns that the text doesn't fit, as a sentence; null where the text has no value for a column, or isn't an object.
    `row`: what from_json made of the text."""
    from pyspark.sql import functions as F  # noqa: N812

    if not schema.fields:
        return F.lit(None).cast("string")
    columns = F.array(
        *(
            F.struct(
                F.lit(each.name).alias("name"),
                F.lit(f"{each.name} ({each.dataType.simpleString()[:_MOST_OF_TYPE]})").alias("told"),
                row[each.name].isNull().alias("is_null"),
            )
            for each in schema.fields
        )
    )
    values = F.from_json(text, "map<string,string>")
    found = F.filter(columns, lambda each: each["is_null"] & values[each["name"]].isNotNull())
    told = F.array_join(F.transform(F.slice(found, 1, _MOST_NAMED), lambda each: each["told"]), ", ")
    return F.when(
        F.size(found) > 0, F.concat(F.lit("the payload has values that don't fit their columns: "), told)
    )
