"""Rules of the entries of `parse`, which are the targets of records as columns. Pure functions."""

import re
from collections.abc import Iterator

from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ColumnsFrom, ParseFormat
from headrace.pipeline.settings.ddl import WrongDdl
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.broken import Broken, is_table_name
from headrace.pipeline.settings.rules.schema import DDL_FORMATS, columns_of_schema, why_no_keys

# A Spark task holds a few such payloads at once.
_MOST_INFLATED = 256 * 1024 * 1024
_MOST_RATIO = 1_000_000
_MOST_VALUES = 100_000_000
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# Dagster's rule for names.
_TARGET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_COLUMNS = 10_000
# Kinesis's rule for names.
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def target_rules(settings: Settings) -> Iterator[Broken]:
    # With the lineage tables, whose names Headrace makes of the others.
    tables = {settings.landing.table, f"{settings.landing.table}_lineage"}
    names: list[str] = []
    for n, target in enumerate(settings.parse):
        key = f"parse.{n}"
        if not _TARGET.fullmatch(target.name) or target.name in names:
            yield Broken(f"{key}.name", f"is {target.name!r}; allowed: letters, digits and _, each name once")
        own = {f"{table}{end}" for table in (target.table, target.quarantine) for end in ("", "_lineage")}
        if taken := sorted(own & tables):
            yield Broken(
                f"{key}.table",
                f"is {target.table!r}, and {taken[0]} is another table of these settings; allowed: "
                "a table of its own for each target",
                also=("landing.table",),
            )
        if not is_table_name(target.table):
            yield Broken(
                f"{key}.table", f"is {target.table!r}; allowed: a namespace and a name (lake.orders)"
            )
        names.append(target.name)
        tables |= own
        yield from _target(target, key)
        yield from _ddl(target, key)


def _target(target: ParseSettings, key: str) -> Iterator[Broken]:
    needs_function = target.format is ParseFormat.CALLABLE
    if needs_function and not _FUNCTION.fullmatch(target.callable or ""):
        yield Broken(
            f"{key}.callable",
            f"is {target.callable!r}; allowed with format: callable: package.module:function",
            also=(f"{key}.format",),
        )
    if target.callable is not None and not needs_function:
        yield Broken(
            f"{key}.callable",
            f"is given, but format is {target.format}: remove it, or say format: callable",
            also=(f"{key}.format",),
        )
    is_protobuf = target.format in (ParseFormat.PROTOBUF, ParseFormat.PROTOBUF_CONFLUENT)
    if is_protobuf != bool(target.message):
        yield Broken(
            f"{key}.message",
            "is missing; needed with format: protobuf: the message's full name (shop.Order)"
            if is_protobuf
            else f"is given, but format is {target.format}: remove it, or say format: protobuf",
            also=(f"{key}.format",),
        )
    yield from _columns(target, key)
    if wrong := _wrong_schema(target):
        yield Broken(f"{key}.schema", wrong, also=(f"{key}.format",))
    for limit, most in (("bytes", _MOST_INFLATED), ("ratio", _MOST_RATIO)):
        value = getattr(target.inflated, limit)
        if not 0 < value <= most:
            yield Broken(f"{key}.inflated.{limit}", f"is {value}; allowed: 1 to {most}")
    if not 0 < target.most_values <= _MOST_VALUES:
        yield Broken(f"{key}.most_values", f"is {target.most_values}; allowed: 1 to {_MOST_VALUES}")
    if target.stream is not None and not _STREAM.fullmatch(target.stream):
        # Rows of the lake table have the name. An ARN would never fit, and the target would never get a row.
        yield Broken(f"{key}.stream", f"is {target.stream!r}; allowed: the stream's name (orders)")
    yield from _unique(target, f"{key}.unique")
    if not 0 < target.stop_above <= 1:
        yield Broken(
            f"{key}.stop_above",
            f"is {target.stop_above}; allowed: a fraction, more than 0 and at most 1 (1: never stops)",
        )


def _columns(target: ParseSettings, key: str) -> Iterator[Broken]:
    is_registry = target.format in (ParseFormat.AVRO_CONFLUENT, ParseFormat.AVRO_GLUE)
    if is_registry != bool(target.schemas):
        yield Broken(
            f"{key}.schemas",
            f"is missing; needed with format: {target.format}: a folder with the registry's schemas (42.avsc)"
            if is_registry
            else f"is given, but format is {target.format}: remove it, or say format: avro-confluent or avro-glue",
            also=(f"{key}.format",),
        )
    if target.columns is not ColumnsFrom.GIVEN and target.format is not ParseFormat.JSON:
        yield Broken(
            f"{key}.columns",
            f"is {target.columns}, and format is {target.format}; allowed: given. "
            "Only JSON payloads tell their columns",
            also=(f"{key}.format",),
        )
    if not 0 < target.most_columns <= _MOST_COLUMNS:
        yield Broken(f"{key}.most_columns", f"is {target.most_columns}; allowed: 1 to {_MOST_COLUMNS}")


def _ddl(target: ParseSettings, key: str) -> Iterator[Broken]:
    """The mistakes of a schema that stands in the settings. One in a file of its own is judged when that file
    is read."""
    if (
        target.format not in DDL_FORMATS
        or target.schema.endswith((".ddl", ".avsc", ".desc"))
        or not target.schema
    ):
        return
    # JSON where DDL belongs has a sentence already (`_wrong_schema`).
    if target.schema.lstrip().startswith("{"):
        return
    try:
        columns = columns_of_schema(target)
    except WrongDdl as wrong:
        yield Broken(f"{key}.schema", f"of the target {target.name} is wrong {wrong}", offset=wrong.offset)
        return
    # With inferred columns, the payloads may bring what `schema` doesn't name.
    if target.columns is ColumnsFrom.GIVEN and (
        why := why_no_keys(target.key_columns, {column.name: column.type for column in columns})
    ):
        yield Broken(f"{key}.unique.by", f"of the target {target.name}: {why}", also=(f"{key}.schema",))


def _unique(target: ParseSettings, key: str) -> Iterator[Broken]:
    unique, columns = target.unique, target.key_columns
    if unique.by and unique.within is None:
        yield Broken(
            f"{key}.within", "is missing; needed with unique.by: how far apart the same event may arrive (1h)"
        )
    if unique.within is not None and not unique.by:
        yield Broken(f"{key}.by", "is missing; needed with unique.within: columns of the schema (order_id)")
    if len(set(columns)) < len(columns) or not all(columns):
        yield Broken(
            f"{key}.by", f"is {unique.by!r}; allowed: columns of the schema, each once (order_id, customer)"
        )


def _wrong_schema(target: ParseSettings) -> str | None:
    if not target.schema:
        return "is missing; needed with columns: given" if target.columns is ColumnsFrom.GIVEN else None
    is_json = target.schema.lstrip().startswith("{")
    match target.format:
        case (
            ParseFormat.AVRO
            | ParseFormat.AVRO_SINGLE_OBJECT
            | ParseFormat.AVRO_CONFLUENT
            | ParseFormat.AVRO_GLUE
        ):
            is_good = is_json or target.schema.endswith(".avsc")
            allowed = "a schema in JSON, or a file with one that ends in .avsc"
        case ParseFormat.PROTOBUF | ParseFormat.PROTOBUF_CONFLUENT:
            is_good = target.schema.endswith(".desc")
            allowed = "a file that ends in .desc, made by protoc --include_imports --descriptor_set_out"
        case ParseFormat.JSON | ParseFormat.DYNAMODB | ParseFormat.CALLABLE:
            is_good = not is_json and not target.schema.endswith((".avsc", ".desc"))
            allowed = (
                "columns as Spark writes them (id BIGINT, name STRING), or a file with them that ends in .ddl"
            )
    return None if is_good else f"doesn't fit format: {target.format}; allowed: {allowed}"
