"""One append on one base, attempted once.

pyiceberg's own commit isn't used, for two reasons that contract tests keep an eye on: a retry of it *rebases*
what was validated on another base, and after a lost answer it may delete the manifests of a commit that
landed. Here nothing is ever deleted: what an attempt leaves behind falls to orphan removal by age.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

TAG = "headrace"
"""Guards the newest snapshot that moved a position against expiry, and is nothing else: never an authority."""
MARK = "headrace.landed"
"""Table property, set with the first landing: an origin is never chosen again where it stands."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Manifests are written; one request decides."""

    snapshot: int
    sequence: int
    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]

    def send(self, table: Table) -> None:
        """Returns: landed. CommitFailedException: somebody was faster. Anything else: who knows."""
        table._do_commit(updates=self.updates, requirements=self.requirements)  # noqa: SLF001 - no retry lives there


class _NothingStaged(Transaction):
    @property
    def table_metadata(self) -> TableMetadata:
        """As it is: pyiceberg copies the whole history at each look, for updates that we don't stage."""
        return self._table.metadata


def prepare(
    table: Table, files: Iterable[DataFile], summary: Mapping[str, str], *, now_ms: int, move_tag: bool
) -> Attempt:
    append = _NothingStaged(table).update_snapshot(snapshot_properties=dict(summary)).merge_append()
    for file in files:
        append.append_data_file(file)
    staged, requirements = append._commit()  # noqa: SLF001 - public commit() goes on to the retry loop
    updates = [_stamped(update, table.metadata, now_ms) for update in staged]
    if move_tag:
        tag = {"ref-name": TAG, "type": SnapshotRefType.TAG, "snapshot-id": append.snapshot_id}
        updates.append(SetSnapshotRefUpdate.model_validate(tag))
    if MARK not in table.properties:
        updates.append(SetPropertiesUpdate(updates={MARK: "true"}))
    return Attempt(
        append.snapshot_id,
        table.metadata.next_sequence_number(),
        tuple(updates),
        (*requirements, AssertTableUUID(uuid=table.metadata.table_uuid)),
    )


def _stamped(update: TableUpdate, base: TableMetadata, now_ms: int) -> TableUpdate:
    """Java, Go and Rust refuse a table whose log goes back by more than a minute, and hosts' clocks differ.

    One more than the base's: pyiceberg takes an unchanged stamp for a missing one and puts the host's time.
    """
    if not isinstance(update, AddSnapshotUpdate):
        return update
    stamp = max(now_ms, base.last_updated_ms + 1)
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"timestamp_ms": stamp}))
