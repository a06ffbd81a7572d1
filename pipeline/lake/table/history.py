"""Snapshots of an Iceberg table as values, from its current metadata and from the older metadata files in its log."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from headrace.pipeline.errors import MetadataLost
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.metadata_files import read_metadata
from headrace.pipeline.lake.table.position_chain import Known, Link, ancestors
from headrace.pipeline.lake.table.remedy import OF_THE_LAKE_TABLE, Remedy


def head_of(table: Table) -> int | None:
    """The newest snapshot of main; None where the table has none yet."""
    snapshot = table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def links_of(metadata: TableMetadata) -> dict[int, Link]:
    return {
        s.snapshot_id: Link(
            s.snapshot_id,
            s.parent_snapshot_id,
            s.sequence_number or 0,
            s.timestamp_ms,
            s.summary.additional_properties if s.summary else {},
            s.summary.operation.value if s.summary else "",
        )
        for s in metadata.snapshots
    }


def older(table: Table) -> Iterator[Known]:
    """Snapshots in the older metadata files that the metadata log names, newest file first. Each file is read when
    needed."""
    return map(links_of, older_metadata(table))


def older_metadata(table: Table) -> Iterator[TableMetadata]:
    """The older metadata files that the metadata log names, newest first. Each file is read when needed.

    These files hold snapshots that were expired since, with their parents and summaries. The files are deleted in time
    (`write.metadata.previous-versions-max`), so a file that is gone only ends the list.
    """
    name = ".".join(table.name())
    for entry in reversed(table.metadata.metadata_log):
        with asking(f"an earlier metadata file of {name}"):
            try:
                metadata = read_metadata(table.io, entry.metadata_file, of=name)
            except MetadataLost:
                return
        yield metadata


def main_of(table: Table, remedy: Remedy = OF_THE_LAKE_TABLE) -> Iterator[Link]:
    """Main's snapshots, newest first, also expired ones that an older metadata file in the log still describes.

    Raises ChainBroken where the walk ends before the table's first snapshot.
    """
    return ancestors(head_of(table), links_of(table.metadata), older(table), remedy)


def all_known(table: Table) -> Known:
    """Every snapshot that the current metadata or a file in its log describes, on main or not."""
    known: dict[int, Link] = {}
    for links in (links_of(table.metadata), *older(table)):
        for snapshot, link in links.items():
            # pyiceberg's expiry removes the parent id from the children of expired snapshots; an older file still has
            # it.
            if snapshot not in known or known[snapshot].parent is None:
                known[snapshot] = link
    return known
