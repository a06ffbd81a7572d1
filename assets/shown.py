"""How Dagster shows the assets of an application: groups, owners, tags, freshness, and the metadata of tables."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, TypedDict

import dagster as dg

from headrace.assets.names import records_key, service_of, slug
from headrace.assets.record_columns import RECORD_COLUMNS
from headrace.pipeline.app.ports import Ports
from headrace.pipeline.core.words.words import size_in_words
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.described_table import Column, TableDescription
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.schema import RECORD_KEY

PAYLOAD = "data"
"""The column of the lake table with the payload."""


class Layer(StrEnum):
    """A layer of an application's assets. Dagster's graph draws each as a box of its own."""

    COORDINATION = "coordination"
    LANDING = "landing"
    TYPED = "typed"
    BACKFILL = "backfill"
    UPKEEP = "upkeep"


class Shown(TypedDict):
    """Arguments of an asset or its spec that decide how Dagster shows it."""

    group_name: str
    owners: list[str]
    tags: dict[str, str]


def shown_metadata(settings: Settings, layer: Layer) -> Shown:
    """The group, owners and tags of each asset of this layer, by the settings."""
    dagster = settings.dagster
    return {
        "group_name": f"{dagster.group or slug(settings.application)}_{layer}",
        "owners": list(dagster.owners),
        "tags": dict(dagster.tags),
    }


def source_kind(settings: Settings) -> str:
    """The AWS service whose streams the application reads, as a kind of its assets. Dagster shows three kinds of
    an asset at most, and two are taken.
    """
    services = {service_of(stream.name) for stream in settings.streams}
    return "dynamodb" if services == {"dynamodb"} else "kinesis"


def freshness(settings: Settings) -> dg.FreshnessPolicy | None:
    """The freshness policy of tables into which records come."""
    asked = settings.dagster.freshness
    if asked.fail is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=asked.fail, warn_window=asked.warn)


def code_version() -> str:
    """The version of Headrace that this process runs."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return "unknown"


def list_of(names: Iterable[str]) -> str:
    """These names as a part of a sentence: `a`, `b` and `c`."""
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def table_name(name: str) -> dict[str, Any]:
    """Metadata with the name of a table, under both keys that tools look for."""
    return {"dagster/table_name": name, "dagster/relation_identifier": name}


def schema_of(columns: Iterable[Column]) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.kind,
                description=column.about or None,
                constraints=dg.TableColumnConstraints(nullable=not column.is_required),
            )
            for column in columns
        ]
    )


def totals(ports: Ports, name: str) -> dict[str, Any]:
    """The totals (rows, files, bytes) of a table as metadata of a materialization; empty where the catalog
    doesn't answer, because the records are in the table all the same.
    """
    try:
        facts = ports.table_facts(name)
    except HeadraceError:
        return {}
    return {} if facts is None else totals_of(facts)


def totals_of(facts: TableDescription) -> dict[str, Any]:
    return {
        "dagster/row_count": dg.MetadataValue.int(facts.rows),
        "dagster/uri": facts.location,
        **table_name(facts.name),
        "table's data files": dg.MetadataValue.int(facts.files),
        "table's size": dg.MetadataValue.text(size_in_words(facts.bytes)),
    }


def column_schema_of(ports: Ports, settings: Settings, name: str) -> dict[str, Any]:
    """The columns of a typed table or its quarantine table, each with the column of the lake table that it comes
    from: columns that the record itself doesn't have come from its payload.
    """
    try:
        facts = ports.table_facts(name)
    except HeadraceError:
        return {}
    if facts is None:
        return {}
    records = records_key(settings)
    own = {column.name for column in RECORD_COLUMNS}
    return {
        "dagster/column_schema": schema_of(facts.columns),
        "dagster/column_lineage": dg.TableColumnLineage(
            {
                column.name: [dg.TableColumnDep(records, _source_of(column.name, own))]
                for column in facts.columns
            }
        ),
    }


def _source_of(column: str, own: Collection[str]) -> str:
    """The column of the record from which a column comes. `own`: the columns that a record has."""
    if column == RECORD_KEY:
        return "partition_key"
    return column if column in own else PAYLOAD
