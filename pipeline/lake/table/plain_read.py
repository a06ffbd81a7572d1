"""Read the lake table without Spark: its ledger, its rows, its files. For checks and summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent

from headrace.pipeline.core.ledger.ledger import LedgerEntry
from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.position_chain import Link
from headrace.pipeline.lake.table.summary import WRITER, ledger_in

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LandedFile:
    path: str
    snapshot: int
    """The snapshot that added it."""
    rows: int


def ledger(table: IcebergTable, *, partial: bool = False) -> Iterator[LedgerEntry]:
    """The ledgers of Headrace's snapshots on main, oldest first. Snapshots of other engines have none.

    Where older snapshots were expired: raises ChainBroken, or yields the rest if `partial`.
    """
    links: list[Link] = []
    try:
        links.extend(table.history())
    except ChainBroken:
        if not partial:
            raise
    return (entry_of(link, table) for link in reversed(links) if link.ours)


def entry_of(link: Link, table: IcebergTable) -> LedgerEntry:
    """The ledger in the summary of a snapshot of Headrace. Raises ChainBroken where it was in a file that is gone."""
    with asking(f"the state of {table.identifier}"):
        page = ledger_in(link.summary, table.states)
    return LedgerEntry(link.snapshot, link.sequence, time_of(link), page, link.summary.get(WRITER, ""))


def time_of(link: Link) -> datetime:
    return _EPOCH + timedelta(milliseconds=link.at)


def rows(table: IcebergTable, columns: Sequence[str] = ("*",)) -> pa.Table:
    """All rows of main. Rows of one file keep the file's order; the order of files is arbitrary."""
    with asking(f"the lake table {table.identifier}"):
        return table.open().scan(selected_fields=tuple(columns)).to_arrow()


def landed_files(table: IcebergTable) -> list[LandedFile]:
    """The data files of main, each with the snapshot that added it."""
    with asking(f"the lake table {table.identifier}"):
        loaded = table.open()
        head = loaded.current_snapshot()
        manifests = head.manifests(loaded.io) if head else []
        entries = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(loaded.io)]
    return [
        LandedFile(entry.data_file.file_path, entry.snapshot_id or 0, entry.data_file.record_count)
        for entry in entries
        if entry.data_file.content == DataFileContent.DATA
    ]
