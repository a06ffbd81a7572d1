"""The data files and old snapshots of the lineage table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from headrace.pipeline.errors import Transient
from headrace.pipeline.lineage.schema import PROPERTIES, ROW_GROUP_LIMIT

_KEPT_SNAPSHOTS = 20
"""Snapshots of the lineage table itself that stay. Each has all rows, so that older ones are of no use."""
_MOST_SMALL_FILES = 32
"""Each recording adds a small file. This many are rewritten as one."""
_SMALL = 16 * 1024 * 1024
"""Bytes below which a file counts as small."""
_ORDER = ("entry", "stream", "stream_epoch", "shard_id", "snapshot_sequence", "place")


def rewritten(table: Table, cut: int | None) -> tuple[list[DataFile], pa.Table | None, pa.Table]:
    """The files of the lineage table that this commit replaces, and their rows: those that stay, and those that
    go because main doesn't lead to their snapshots any more.

    Whole files are replaced, so that one commit removes rows and adds others, and makes no delete file that
    readers would have to know.
    """
    tasks = list(table.scan().plan_files())
    small = [task for task in tasks if task.file.file_size_in_bytes < _SMALL]
    chosen = {task.file for task in small} if len(small) >= _MOST_SMALL_FILES else set()
    if cut is not None:
        above = table.scan(f"snapshot_sequence > {cut}")
        chosen |= {task.file for task in above.plan_files()}
    nothing = table.schema().as_arrow().empty_table()
    if not chosen:
        return [], None, nothing
    # pyiceberg's reader of files, because it leaves out rows that another engine has deleted by a delete file.
    reader = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    read = [task for task in tasks if task.file in chosen]  # a list, because the reader goes through it twice
    rows = reader.to_table(read)
    in_files = sum(task.file.record_count for task in read)
    if rows.num_rows != in_files and not any(task.delete_files for task in read):
        raise Transient(
            f"{'.'.join(table.name())} can't be rewritten: {in_files} rows are in its files, and {rows.num_rows} were read. Nothing "
            "was changed; the next recording tries again"
        )
    if cut is None:
        return list(chosen), rows, nothing
    stays = pc.less_equal(rows["snapshot_sequence"], pa.scalar(cut))
    return list(chosen), rows.filter(stays), rows.filter(pc.invert(stays))


def sorted_rows(rows: pa.Table) -> pa.Table:
    """The rows in an order in which the bounds of a file, and of each of its row groups, tell the shards whose
    ranges are in it.
    """
    return rows.sort_by([(column, "ascending") for column in _ORDER])


def with_small_groups(metadata: TableMetadata) -> TableMetadata:
    """The metadata with the property by which pyiceberg writes small row groups, also for a table that was made
    before there was that property.
    """
    properties = {ROW_GROUP_LIMIT: PROPERTIES[ROW_GROUP_LIMIT], **metadata.properties}
    return metadata.model_copy(update={"properties": properties})


def old_snapshots(table: Table) -> list[int]:
    """The lineage table's own snapshots that the next commit can remove from its metadata."""
    # A snapshot that a tag or a branch names stays: somebody wants it.
    named = {ref.snapshot_id for ref in table.metadata.refs.values()}
    old: list[int] = []
    snapshot = table.current_snapshot()
    place = 1
    while snapshot is not None:
        place += 1
        if place > _KEPT_SNAPSHOTS and snapshot.snapshot_id not in named:
            old.append(snapshot.snapshot_id)
        snapshot = (
            None if snapshot.parent_snapshot_id is None else table.snapshot_by_id(snapshot.parent_snapshot_id)
        )
    return old
