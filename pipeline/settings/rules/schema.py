"""Rules of the schema of a target that is written as DDL, beside those of DDL itself. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.ddl import DdlColumn, WrongDdl, read_ddl

REASON, DATA = "quarantine_reason", "quarantine_data"
"""Columns by which a callable sets a record aside."""
RECORD_KEY = "record_key"
"""The column of a table with `into: latest` that has the partition key of the row's record."""
ROW_NUMBER = "row_number"
"""The column of a processor's table that tells the rows apart that the processor gave after the same record."""
OWN_COLUMNS = frozenset(
    {
        *("stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number", "arrival_ts"),
        *("sort_key", "arrival_day", "record", RECORD_KEY, REASON, DATA),
    }
)
"""Names, in small letters, that no column of a schema may have: columns that Headrace itself gives to a typed
table, and those by which it hands rows on."""
DDL_FORMATS = (ParseFormat.JSON, ParseFormat.DYNAMODB, ParseFormat.CALLABLE)
"""Formats whose schema is DDL."""
CHANGE_MEMBERS = (
    *(
        "eventName",
        "Keys",
        "NewImage",
        "OldImage",
        "ApproximateCreationDateTime",
        "SequenceNumber",
        "SizeBytes",
    ),
    *("StreamViewType", "userIdentity", "eventID", "eventVersion", "eventSource", "awsRegion"),
    # Only where DynamoDB writes its changes to a Kinesis stream.
    *("ApproximateCreationDateTimePrecision", "tableName", "recordFormat"),
)
"""What a change of a DynamoDB table tells, as DynamoDB names it."""


def columns_of_schema(target: ParseSettings) -> tuple[DdlColumn, ...]:
    """The columns in a target's DDL schema; none where the columns come from payloads. Raises WrongDdl."""
    if not target.schema:
        return ()
    columns = read_ddl(target.schema)
    for column in columns:
        # By small letters: Spark takes names without regard to capitals.
        if column.name.lower() in OWN_COLUMNS:
            why = (
                f"Headrace itself gives the table a column {column.name.lower()}; use format: callable, "
                "and give the column another name"
            )
            raise WrongDdl(why, column.name, column.offset)
        if target.format is ParseFormat.DYNAMODB and column.name not in CHANGE_MEMBERS:
            why = f"a change of a DynamoDB table has no such member; its members are {', '.join(CHANGE_MEMBERS)}"
            raise WrongDdl(why, column.name, column.offset)
        if target.format is not ParseFormat.CALLABLE and any(
            kind != "string" for kind in _kinds_of_keys(column.type)
        ):
            why = "names in JSON are texts, so that the keys of a MAP can only be STRING"
            raise WrongDdl(why, column.name, column.offset)
    return columns


def columns_of_processor(schema: str) -> tuple[DdlColumn, ...]:
    """The columns in the DDL schema of the rows that a processor gives. Raises WrongDdl."""
    columns = read_ddl(schema) if schema else ()
    for column in columns:
        if column.name.lower() in {*OWN_COLUMNS, ROW_NUMBER}:
            why = f"Headrace itself gives the table a column {column.name.lower()}; give the column another name"
            raise WrongDdl(why, column.name, column.offset)
    return columns


def why_no_keys(
    by: Sequence[str], columns: Mapping[str, Any], tell: str = "whether two rows are the same event"
) -> str | None:
    """Why these columns can't be a key of rows; None where they can. `tell`: what the key is for, in words. `columns`:
    all columns, with types in Spark's JSON form.
    """
    for name in by:
        if name not in columns:
            return (
                f"the key names {name}, and the schema has no such column "
                f"({', '.join(columns) or 'it names none'}); name columns of the schema. "
                "A part of a struct can't be named; use format: callable, and make it a column"
            )
        kind = columns[name]
        # NaN isn't equal to itself, and Spark can't sort maps.
        if not isinstance(kind, str) or kind in ("float", "double"):
            word = kind if isinstance(kind, str) else kind["type"]
            return (
                f"the key names {name}, whose type is {word}: such values can't tell {tell}; "
                "name columns with texts, whole numbers, decimals, times, booleans or bytes"
            )
    return None


def _kinds_of_keys(kind: Any) -> Iterator[Any]:
    """The types of the keys of each map within a type."""
    if isinstance(kind, str):
        return
    match kind["type"]:
        case "struct":
            for field in kind["fields"]:
                yield from _kinds_of_keys(field["type"])
        case "array":
            yield from _kinds_of_keys(kind["elementType"])
        case "map":
            yield kind["keyType"]
            yield from _kinds_of_keys(kind["valueType"])
