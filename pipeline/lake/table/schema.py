"""The lake table as Headrace creates it: columns, partitioning, sort order and properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, UNSORTED_SORT_ORDER_ID, SortField, SortOrder
from pyiceberg.table.update import (
    AddSortOrderUpdate,
    AssertDefaultSortOrderId,
    AssertTableUUID,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import BinaryType, LongType, NestedField, PrimitiveType, StringType, TimestamptzType

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.table.form import FORM, TABLE_FORM, check_form
from headrace.pipeline.lake.table.remedy import OF_THE_LAKE_TABLE, Remedy
from headrace.pipeline.settings.choices import Aggregates

Columns = tuple[tuple[str, PrimitiveType, str], ...]
"""The name, type and meaning of each column."""

_COLUMNS: Columns = (
    ("stream", StringType(), "Name of the Kinesis stream"),
    (
        "stream_epoch",
        LongType(),
        "When the stream was created, in seconds: a stream made again is another one",
    ),
    ("shard_id", StringType(), "Unique within stream and stream_epoch only"),
    ("sequence_number", StringType(), "Decimal digits; compare as a number"),
    ("sub_sequence_number", LongType(), "Place within a KPL aggregate"),
    ("partition_key", StringType(), "As the producer gave it"),
    ("explicit_hash_key", StringType(), "Of a user record in a KPL aggregate"),
    ("arrival_ts", TimestamptzType(), "When Kinesis received the record"),
    ("data", BinaryType(), "The payload, untouched"),
    ("decode_error", StringType(), "Why a record couldn't be taken apart; data then holds it whole"),
    (
        SORT_KEY,
        StringType(),
        "Sorts a shard's records: digits of the sequence number, it, the sub-sequence number",
    ),
)

_HISTORY = "write.metadata.previous-versions-max"
_HISTORY_LENGTH = 200
"""Older metadata files that the metadata log names. Iceberg's default of 100 is half as many."""


_BASE_PROPERTIES: Mapping[str, str] = {
    FORM: TABLE_FORM,
    # The walk over expired snapshots reads these older metadata files. Each commit adds one.
    _HISTORY: str(_HISTORY_LENGTH),
    "write.metadata.delete-after-commit.enabled": "true",
    # Without merging, each commit adds a manifest, and all later commits copy the whole list.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    # 14 days. Another engine's expiry asks nobody whether a ledger was recorded in the lineage table.
    "history.expire.max-snapshot-age-ms": str(14 * 24 * 3600 * 1000),
    # Iceberg cuts bounds at 16 characters by default, and shard ids differ only in the last digits of 20 characters.
    "write.metadata.metrics.column.shard_id": "full",
    "write.metadata.metrics.column.sequence_number": "full",
    f"write.metadata.metrics.column.{SORT_KEY}": "full",
}


DAY = "arrival_day"
"""The name of the partition field. pyiceberg changes no schema that has a column of this name."""

WINDOW = "headrace.window"
"""Table property: the id of the window whose own table this is. Nothing but this window goes on from its positions."""

KEPT_FROM = "headrace.kept-from"
"""Table property: the first day that the retention has left in the table, set by each commit that removes days. A reader with another clock
or another setting knows by it which days are gone."""

AGGREGATES = "headrace.aggregates"
"""Table property: `unpack` where aggregates of the Kinesis Producer Library are taken apart, unless the settings say
otherwise. A table without it has aggregates as they came."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns and properties that Headrace gives to a kind of table. Each such table is partitioned by the
    day of `arrival_ts`, and its rows name the stream, the shard and the sequence number of their record.
    """

    columns: Columns
    no_bounds: tuple[str, ...]
    """Columns whose bounds help no query, and would copy payloads and partition keys into the metadata."""

    @property
    def schema(self) -> Schema:
        """The Iceberg schema of the table. No column is required: a record that couldn't be taken apart may lack
        any of them.
        """
        return Schema(
            *(
                NestedField(field_id=i, name=name, field_type=kind, required=False, doc=doc)
                for i, (name, kind, doc) in enumerate(self.columns, start=1)
            )
        )

    @property
    def properties(self) -> Mapping[str, str]:
        return {
            **_BASE_PROPERTIES,
            **{f"write.metadata.metrics.column.{name}": "none" for name in self.no_bounds},
        }

    @property
    def partitions(self) -> PartitionSpec:
        arrival = self.schema.find_field("arrival_ts").field_id
        return PartitionSpec(
            PartitionField(source_id=arrival, field_id=1000, transform=DayTransform(), name=DAY)
        )

    @property
    def order(self) -> SortOrder:
        """The table's sort order. Compaction by other engines follows it, and so keeps a shard's rows together,
        in their order.
        """
        # The shard before the number: numbers of different shards say nothing about each other.
        names = ("stream", "stream_epoch", "shard_id", SORT_KEY)
        schema = self.schema
        return SortOrder(
            *(
                SortField(source_id=schema.find_field(name).field_id, transform=IdentityTransform())
                for name in names
            )
        )


RECORDS = TableLayout(
    _COLUMNS,
    no_bounds=("partition_key", "explicit_hash_key", "data", "decode_error"),
)
"""The lake table into which records are landed."""

SCHEMA = RECORDS.schema
PARTITIONS = RECORDS.partitions
PROPERTIES = RECORDS.properties


def properties_of_new(layout: TableLayout, aggregates: Aggregates) -> Mapping[str, str]:
    """The properties of a table that is created now."""
    takes_apart = layout is RECORDS and aggregates is not Aggregates.KEEP
    unpacks = {AGGREGATES: Aggregates.UNPACK.value} if takes_apart else {}
    return {"format-version": "2", **layout.properties, **unpacks}


def unpacks(table: Table, aggregates: Aggregates) -> bool:
    """Whether aggregates are taken apart in this table, by the setting and by the table's own property."""
    if aggregates is not Aggregates.AUTO:
        return aggregates is Aggregates.UNPACK
    return table.properties.get(AGGREGATES) == Aggregates.UNPACK.value


def missing_properties(present: Mapping[str, str], layout: TableLayout = RECORDS) -> dict[str, str]:
    """The properties to set on a table: Headrace's own that another tool removed, and the length of the metadata
    log if another tool made it too short.

    Other changed values stay.
    """
    missing = {key: value for key, value in layout.properties.items() if key not in present}
    length = present.get(_HISTORY, "0")
    if not length.isdecimal() or int(length) < _HISTORY_LENGTH:
        missing[_HISTORY] = str(_HISTORY_LENGTH)
    return missing


def missing_sort_order(
    table: TableMetadata,
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    """The update that gives a table Iceberg's sort order 0, with the requirements of the update; nothing where
    the table has that order.

    Order 0 means unsorted. pyiceberg creates a sorted table without it, and then Iceberg in Java can't sort the
    table by any order other than the table's. The update has to be part of a landing's commit: the requirement on
    the snapshot makes sure that no two writers add the order, because Java couldn't read the table then. An
    engine that adds the order by itself makes it the table's default, too.
    """
    if table.sort_order_by_id(UNSORTED_SORT_ORDER_ID) is not None:
        return (), ()
    only_if = AssertDefaultSortOrderId.model_validate({"default-sort-order-id": table.default_sort_order_id})
    return (AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}),), (only_if,)


def missing_parts(
    table: Table, layout: TableLayout = RECORDS, *, aggregates: Aggregates = Aggregates.AUTO
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    """The update that gives the table the properties and the sort order that it lacks, with the requirements of
    the update; nothing where the table has all.
    """
    missing = missing_properties(table.properties, layout)
    if layout is RECORDS and aggregates is Aggregates.UNPACK and not unpacks(table, Aggregates.AUTO):
        # The table remembers the choice, also when the setting is left out again.
        missing[AGGREGATES] = Aggregates.UNPACK.value
    updates = (SetPropertiesUpdate(updates=missing),) if missing else ()
    return updates, (AssertTableUUID(uuid=table.metadata.table_uuid),)


@contextmanager
def using_properties_of(table: Table) -> Iterator[None]:
    """Turn pyiceberg's error about a table property that it can't use into an error that names it. Another tool
    may set any property to any text.
    """
    try:
        yield
    except ValueError as error:
        raise WrongShape(
            f"the lake table {'.'.join(table.name())} has a property that pyiceberg can't use: {error}. Nothing was committed and no "
            "position moved; correct the property or remove it from the table"
        ) from error


def check_shape(table: Table, layout: TableLayout = RECORDS, remedy: Remedy = OF_THE_LAKE_TABLE) -> None:
    """Raise an error for a table that lacks one of Headrace's columns or is partitioned differently. Further
    columns are allowed.

    `remedy`: what a person does about a table that can't be used.
    """
    name = ".".join(table.name())
    called = f"{'the lake table' if remedy is OF_THE_LAKE_TABLE else 'the table'} {name}"
    check_form(table, called)
    schema = table.schema()
    for column, kind, _ in layout.columns:
        actual = schema.find_type(column) if column in schema.column_names else None
        if actual != kind:
            raise WrongShape(
                f"{called} has {f'{column} as {actual}' if actual else f'no column {column}'}, "
                f"and needs {column} as {kind}. Nothing was written; restore the column or name another table"
            )
    by_day = [(f.source_id, f.transform) for f in table.spec().fields]
    if by_day != [(schema.find_field("arrival_ts").field_id, DayTransform())]:
        raise WrongShape(
            f"{called} is partitioned by [{', '.join(map(str, table.spec().fields))}], "
            "and must be partitioned by [day(arrival_ts)]. Nothing was written; restore the partitioning or name another table"
        )
    if table.format_version < 2:
        raise WrongShape(
            f"{called} has Iceberg format version {table.format_version}, and needs version 2: snapshots of "
            "version 1 have no sequence numbers. Nothing was written; upgrade the table or name another one"
        )
    if table.format_version > 2:
        # pyiceberg 0.12 reads version 3, and writes neither its metadata files nor its manifests.
        raise WrongShape(
            f"{called} has Iceberg format version {table.format_version}, and this version of Headrace can only write "
            "version 2. Nothing was read from Kinesis, nothing was written, and no position moved. Iceberg has no way back to "
            f"version 2: {remedy.new_format}, or wait for a version of Headrace that writes this one"
        )
