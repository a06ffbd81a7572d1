"""The lineage table as Headrace creates it: its columns and properties."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BooleanType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.table.form import FORM, TABLE_FORM, check_form

OF = "headrace.lineage-of"
"""Table property: the UUID of the lake table whose ledgers the lineage table has."""

ROW_GROUP_LIMIT = "write.parquet.row-group-limit"

PROPERTIES: Mapping[str, str] = {
    FORM: TABLE_FORM,
    # The newest snapshot tells how far the table goes, so that older metadata files are of no use.
    "write.metadata.previous-versions-max": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    # Iceberg cuts bounds at 16 characters by default, and shard ids differ only in the last digits of 20 characters.
    "write.metadata.metrics.column.shard_id": "full",
    # Rows of a group. A reader that asks for one shard passes over the groups of others, because files are sorted by
    # shard.
    ROW_GROUP_LIMIT: "8192",
}

_TEXT, _LONG, _TIME, _FLAG = StringType(), LongType(), TimestamptzType(), BooleanType()
_ids = itertools.count(1)


def _field(name: str, kind: IcebergType, doc: str = "") -> NestedField:
    return NestedField(next(_ids), name, kind, required=False, doc=doc or None)


def _list(kind: IcebergType) -> ListType:
    return ListType(next(_ids), kind, element_required=False)


def _position() -> StructType:
    return StructType(
        _field("sequence_number", _TEXT, "Of the last record; null where no record has landed"),
        _field("sub_sequence_number", _LONG, "Of the last user record in a KPL aggregate"),
        _field("ended", _FLAG, "Whether the shard has ended"),
        _field(
            "sort_key", _TEXT, "Sorts as text: number of digits, sequence number, sub-sequence number, end"
        ),
        _field("children", _list(_TEXT), "Of an ended shard"),
        _field("arrival", _TIME, "When Kinesis received the last record"),
        _field("seen", _TIME, "When Kinesis last answered that there was nothing newer"),
        _field("start", _TEXT, "Where reading starts while no record has landed: TRIM_HORIZON or a time"),
        _field("gap_accepted", _FLAG, "Whether a person accepted that the next records may be lost"),
        _field("inside", _FLAG, "Whether the record may be an aggregate with more user records"),
        _field("skipped_until", _TIME, "Up to when the records after the last one are given up"),
    )


_PARENT = StructType(
    _field("shard_id", _TEXT),
    _field("why", _TEXT, "ended, before-start, gone or passed"),
    _field("by", _TEXT, "With passed: the descendant that has a position"),
)
_ORIGIN = StructType(
    _field("start", _TEXT, "TRIM_HORIZON or a time"),
    _field("decided", _TIME, "When it was decided, by Kinesis's clock"),
)

SCHEMA = Schema(
    _field("entry", _TEXT, "range, origin, dropped, empty, lost or derived"),
    _field("snapshot_id", _LONG, "Snapshot of the lake table whose ledger has this entry"),
    _field("snapshot_sequence", _LONG, "The snapshot's sequence number, which grows with each commit"),
    _field("snapshot_at", _TIME, "The snapshot's time"),
    _field("place", _LONG, "Place of the entry within the snapshot's ledger"),
    _field("writer", _TEXT, "The worker or command that committed the snapshot"),
    _field("stream", _TEXT, "Name of the Kinesis stream"),
    _field("stream_arn", _TEXT, "ARN of the Kinesis stream"),
    _field("stream_epoch", _LONG, "When the stream was created, in seconds"),
    _field("shard_id", _TEXT, "Unique within stream and stream_epoch only"),
    _field(
        "kind",
        _TEXT,
        "landed, foreign, skipped, reposition, repair, adopt or replay; parsed or copied in a table made of the lake table",
    ),
    _field("after", _position(), "Where the range begins; null: at the start of the shard"),
    _field("upto", _position(), "Where the range ends"),
    _field("rows", _LONG, "The range's rows in the lake table, one for each user record"),
    _field("bytes", _LONG, "Bytes of the range's Kinesis records"),
    _field("first_arrival", _TIME, "When Kinesis received the range's first record"),
    _field("last_arrival", _TIME, "When Kinesis received the range's last record"),
    _field("run", _TEXT, "The run that read the range; unknown for a derived one"),
    _field("claim", _TEXT, "The run's claim on the shard"),
    _field(
        "files", _list(_TEXT), "Names of the data files that landed; compaction may have replaced them since"
    ),
    _field("parents", _list(_PARENT), "In a shard's first range: why no parent was in the way"),
    _field("why", _TEXT, "The reason for an entry that isn't a landed range"),
    _field("origin", _ORIGIN, "Where the reading of the stream starts"),
    _field("records", _LONG, "The range's Kinesis records"),
    _field("unpacked", _FLAG, "Whether aggregates were taken apart, into a row for each user record"),
)
"""No column is required, because each kind of entry has its own columns. A catalog numbers the fields anew."""


def check_lineage(table: Table, lake_uuid: str) -> None:
    """Raise an error for a table that isn't the lineage table of this lake table."""
    name = ".".join(table.name())
    check_form(table, f"the lineage table {name}")
    kinds = {field.name: field.field_type for field in table.schema().fields}
    for field in SCHEMA.fields:
        if not _fits(kinds.get(field.name), field.field_type):
            raise WrongShape(
                f"the table {name} lacks the column {field.name} of a lineage table, or has it in another form. Nothing was "
                "written to it; rename or drop that table, and the next recording makes a new one"
            )
    if not table.spec().is_unpartitioned():
        raise WrongShape(
            f"the lineage table {name} is partitioned, and Headrace writes an unpartitioned one. Nothing was written to it; remove "
            "the partitioning"
        )
    if table.properties.get(OF, lake_uuid) != lake_uuid:
        raise WrongShape(
            f"the table {name} has the ledgers of another lake table, which was dropped or replaced since. Nothing was "
            "written to it; rename it to keep these ledgers or drop it, and the next recording makes a new one"
        )


def _fits(kind: IcebergType | None, expected: IcebergType) -> bool:
    """Whether a column is of the wanted type; ids within it don't matter, because a catalog may number them anew."""
    if isinstance(expected, ListType):
        return isinstance(kind, ListType) and _fits(kind.element_type, expected.element_type)
    if isinstance(expected, StructType):
        if not isinstance(kind, StructType):
            return False
        inner = {field.name: field.field_type for field in kind.fields}
        return all(_fits(inner.get(field.name), field.field_type) for field in expected.fields)
    return kind == expected
