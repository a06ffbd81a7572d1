"""The data files that an insert of another engine has added to the lake table."""

from __future__ import annotations

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.lake.table.history import links_of, main_of


def inserted_by(table: Table, snapshot: int) -> tuple[LiveFile, ...]:
    """The data files that a snapshot of another engine has inserted. Raises Unknown where main doesn't lead to
    the snapshot any more, and WrongShape where the snapshot isn't an insert by another engine.
    """
    insert = table.snapshot_by_id(snapshot)
    # Metadata also knows snapshots that were rolled back, and their rows aren't in the table.
    if insert is None or all(link.snapshot != snapshot for link in main_of(table)):
        raise Unknown(
            f"the lake table's metadata has no snapshot {snapshot} on main: it was expired or rolled back, or the number is wrong. Nothing was "
            "changed; the table `snapshots` that Iceberg shows beside it names those that are there"
        )
    _check(table, insert)
    return tuple(
        LiveFile(file.file_path, None, file.record_count, file.file_size_in_bytes)
        for manifest in insert.manifests(table.io)
        if manifest.content is ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.snapshot_id == snapshot and (file := entry.data_file).content is DataFileContent.DATA
    )


def _check(table: Table, snapshot: Snapshot) -> None:
    link = links_of(table.metadata)[snapshot.snapshot_id]
    if link.ours:
        raise WrongShape(
            f"snapshot {link.snapshot} is a commit of Headrace, whose ledger claims its rows: if a row of it is in no range, report this as an error "
            "of Headrace. Nothing was changed"
        )
    if link.picked:
        raise WrongShape(
            f"snapshot {link.snapshot} is a cherry-pick of rows that Headrace had landed: `headrace repair` takes them over. Nothing was changed"
        )
    operation = None if snapshot.summary is None else snapshot.summary.operation
    # Only an append adds rows and nothing else.
    if operation is not Operation.APPEND:
        raise WrongShape(
            f"snapshot {link.snapshot} isn't an insert ({getattr(operation, 'value', operation)}): its files also have rows that were there before, "
            "and how many are new can't be told. Nothing was changed"
        )
