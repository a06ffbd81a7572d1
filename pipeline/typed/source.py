"""The lake table as a typed table reads it: its positions and data files, both of one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import inf

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from headrace.pipeline.errors import ChainBroken, Unreachable
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.history import head_of, links_of, main_of
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.live_files import ManifestReader, moment_in
from headrace.pipeline.lake.table.position_chain import Link
from headrace.pipeline.lake.table.summary import WRITER
from headrace.pipeline.typed.ports import SourceLook, SourceTable
from headrace.pipeline.typed.set_elsewhere import way_on
from headrace.pipeline.typed.values import SourceFile

_COUNTS = frozenset({"added-records", "deleted-records", "total-records"})
"""Keys of a summary. A commit that adds or deletes no rows may leave the first or the second one out."""
_NO_REMOVAL = frozenset({Operation.APPEND.value})
_NO_ADDITION = frozenset({Operation.DELETE.value, Operation.REPLACE.value})


class IcebergSource(SourceTable):
    def __init__(self, lake: IcebergTable) -> None:
        self._lake = lake
        self._manifests = ManifestReader()

    def exists(self) -> bool:
        return self._lake.exists()

    def look(self) -> SourceLook:
        # Before the table is loaded: files of the wave are looked at after this moment, never
        # before it.
        moment = self._lake.clock.now()
        base = self._lake.base()
        with asking(f"the storage of {self._lake.identifier}"):
            live, entries = self._manifests.look(base.table)
        files = tuple(
            _file(entries[file.path], base.table, deletes=bool(file.deletes), day=file.day)
            for file in live.files
        )
        head = base.table.current_snapshot()
        return SourceLook(
            base.state.positions,
            files,
            moment,
            snapshot=None if head is None else head.snapshot_id,
            sequence=0 if head is None else head.sequence_number or 0,
            kept_from=base.state.kept_from,
            leads_to=partial(leads_to, base.table),
            way_to=partial(way_on, known_main(base.table)),
        )

    def changed_by_others(self, since: int, *, lacks: int) -> str:
        newest, rows = "", 0.0
        # The history ends where its older snapshots have expired.
        with suppress(ChainBroken):
            for link in main_of(self._lake.open()):
                if link.sequence < since:
                    break
                # Commits of Headrace can't be the cause: each accounts for its rows in its ledger.
                most = 0 if WRITER in link.summary else rows_changed(link, removes=lacks > 0)
                rows += most
                if most and not newest:
                    newest = f"another engine has changed rows by snapshot {link.snapshot} ({link.operation})"
                if newest and rows >= abs(lacks):
                    return newest
        return ""


def rows_changed(link: Link, *, removes: bool) -> float:
    """The most rows that a commit may have removed (added, unless `removes`); infinite where its summary doesn't
    tell.
    """
    summary = link.summary
    if link.operation in (_NO_REMOVAL if removes else _NO_ADDITION):
        return 0
    # Rows that a delete file names leave the table's files later.
    if summary.keys().isdisjoint(_COUNTS) or (removes and "added-delete-files" in summary):
        return inf
    more = int(summary.get("added-records", "0")) - int(summary.get("deleted-records", "0"))
    return max(0, -more if removes else more)


def known_main(table: Table) -> Mapping[int, int]:
    """The snapshots of main that haven't expired: sequence number to snapshot id. No file is read for that."""
    links, main, snapshot = links_of(table.metadata), dict[int, int](), head_of(table)
    while snapshot is not None and (link := links.get(snapshot)) is not None:
        main[link.sequence] = snapshot
        snapshot = link.parent
    return main


def leads_to(table: Table, snapshot: int, sequence: int) -> bool:
    """Whether a snapshot is the newest one of main or an ancestor of it. `sequence`: the snapshot's sequence
    number. False where nothing tells that any more.
    """
    try:
        for link in main_of(table):
            # Sequence numbers fall on the way back.
            if link.sequence <= sequence:
                return link.snapshot == snapshot
    except (ChainBroken, Unreachable):
        return False
    return False


def _file(entry: ManifestEntry, table: Table, *, deletes: bool, day: str | None) -> SourceFile:
    file = entry.data_file
    keys = _bounds(file, table, SORT_KEY)
    shards = _bounds(file, table, "shard_id")
    return SourceFile(
        file.file_path,
        file.record_count,
        low="" if keys is None else keys[0],
        high=None if keys is None else keys[1],
        shards=shards,
        oldest=moment_in(file.lower_bounds, table),
        newest=moment_in(file.upper_bounds, table),
        deletes=deletes,
        day=day,
        added=entry.file_sequence_number,
    )


def _bounds(file: DataFile, table: Table, column: str) -> tuple[str, str] | None:
    """The lowest and the highest value, where the table knows both and no row lacks one."""
    names = table.schema().column_names
    if column not in names:
        return None
    number = table.schema().find_field(column).field_id
    low, high = (file.lower_bounds or {}).get(number), (file.upper_bounds or {}).get(number)
    if low is None or high is None or (file.null_value_counts or {}).get(number, 1):
        return None
    return str(from_bytes(StringType(), low)), str(from_bytes(StringType(), high))
