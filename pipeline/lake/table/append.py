"""One commit on one loaded state of a table (its base), attempted once.

pyiceberg's own commit isn't used, for two reasons; a contract test shows each of them. Its retry *rebases*: it puts the
append on a newer base without a check of the positions, so that a range could land twice. And with retries off, it
deletes the manifests of a commit whose answer was lost, though the commit may have landed. Here nothing is deleted:
files that no snapshot names are orphans, which `headrace upkeep` deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.table.update.snapshot import _OverwriteFiles

from headrace.pipeline.lake.table.commit_files import Append, CommitFiles, Merging
from headrace.pipeline.lake.table.schema import missing_sort_order

TAG = "headrace"
"""A tag on the newest snapshot that moved a position or carried all of them, so that other engines' expiry keeps this
snapshot. Positions are never read by way of the tag: after a rollback of main, the tag is on a snapshot that is no
longer part of the table.
"""
MARK = "headrace.landed"
"""Table property, set by the first landing. A table that has it never gets a new origin (start of a stream), even where
its snapshots are gone: a second origin would land records again.
"""


OWN_COMMIT = "4ead4ace"
"""How the ids of Headrace's commits begin. The names of their manifests have them, so that upkeep knows which manifests
it may delete: those of other engines may belong to a commit that is still to come, which their engine would put on any
newer snapshot."""


def own_id() -> UUID:
    """A new id for a commit. It begins with `OWN_COMMIT`, by which upkeep recognizes the commits of Headrace."""
    return UUID(OWN_COMMIT + uuid4().hex[len(OWN_COMMIT) :])


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """A commit whose manifests are written. One request to the catalog lands it or is refused."""

    snapshot: int
    sequence: int
    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]

    def also(self, *updates: TableUpdate) -> PreparedCommit:
        """This commit with further changes of the table's metadata."""
        return replace(self, updates=(*self.updates, *updates))

    def send(self, table: Table) -> None:
        """Send the request to the catalog. If this returns, the commit landed; if it raises
        CommitFailedException, it didn't (another commit was faster). After any other exception it may have landed
        or not.
        """
        # Not by way of pyiceberg's Table, which deletes old metadata files after its commit: only upkeep deletes.
        table.catalog.commit_table(table, self.requirements, self.updates)


class _NothingStaged(Transaction):
    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata itself. pyiceberg's property deep-copies all snapshots at each access, to show staged
        updates: half of a commit's CPU at 1,500 snapshots, and nothing is staged here.
        """
        return self._table.metadata


class _Exchange(_OverwriteFiles, Merging):
    """A commit that removes files of main and adds others."""

    shown_as = Operation.OVERWRITE

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        """An evaluator for each manifest. pyiceberg's keeps the bounds of the manifest that it looks at, and pyiceberg
        shares it between threads: then a manifest may be judged by the bounds of another one, and the files to remove
        aren't found in it.
        """
        make = super()._build_manifest_evaluator

        def judge(manifest: ManifestFile) -> bool:
            return make(spec_id)(manifest)

        return judge

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        # pyiceberg counts the files of an overwrite, and refuses to count those of a replacement in the same way.
        summary = super()._summary(snapshot_properties or {})
        return Summary(self.shown_as, **summary.additional_properties)


def prepare(
    table: Table,
    files: Iterable[DataFile],
    summary: Mapping[str, str],
    *,
    now_ms: int,
    replaced: Collection[DataFile] = (),
    again: CommitFiles | None = None,
    operation: Operation = Operation.OVERWRITE,
) -> PreparedCommit:
    """Write the manifests of a commit that adds files to main.

    `again`: the staged files, with the manifest entries that an earlier attempt may have made of them.
    `replaced`: files of main that the same commit removes. `operation`: of a commit that removes files. It tells
    readers of incremental changes whether the commit is a rewrite, which changes no row.
    """
    staged_changes, properties = _NothingStaged(table), dict(summary)
    producer: Append | _Exchange
    if replaced:
        producer = _Exchange(Operation.OVERWRITE, staged_changes, table.io, snapshot_properties=properties)
        producer.shown_as = operation
    else:
        producer = Append(staged_changes, table.io, properties, again or CommitFiles())
    # Before anything is written: the names of the manifests have this id.
    producer.commit_uuid = own_id()
    # pyiceberg takes the codec that the table sets for data files in Avro. Of Iceberg's codecs it can't
    # write two, snappy and uncompressed.
    producer._compression = TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT  # type: ignore[assignment]  # noqa: SLF001
    for file in files:
        producer.append_data_file(file)
    for file in replaced:
        producer.delete_data_file(file)
    # _commit() writes the manifests and returns the updates, with the requirement that main is still at the base's
    # snapshot: the catalog checks it in the same step as the write, which is the compare-and-swap that everything rests
    # on.
    staged, requirements = producer._commit()  # noqa: SLF001 - the public commit() would go on into the retry loop
    unsorted, only_if = missing_sort_order(table.metadata)
    return PreparedCommit(
        producer.snapshot_id,
        table.metadata.next_sequence_number(),
        (*(_stamped(update, table.metadata, now_ms) for update in staged), *unsorted),
        # The UUID too: a table that was dropped and created again under the same name is another table.
        (
            *requirements,
            *_unmoved_tag(table.metadata),
            AssertTableUUID(uuid=table.metadata.table_uuid),
            *only_if,
        ),
    )


def _unmoved_tag(base: TableMetadata) -> Iterator[TableRequirement]:
    """The requirement that the tag still is where the base has it.

    A rollback may set main back to the very snapshot that an old request was built on. The tag isn't set back by it, so
    that the request is refused all the same: upkeep may have deleted its files behind a commit that was rolled back.
    """
    # Of a table without snapshots, pyiceberg refuses a requirement of any ref but main.
    if base.snapshots:
        ref = base.refs.get(TAG)
        where = {"ref": TAG, "snapshot-id": None if ref is None else ref.snapshot_id}
        yield AssertRefSnapshotId.model_validate(where)


def landing_marks(table: Table, snapshot: int, *, move_tag: bool) -> Iterator[TableUpdate]:
    """The changes of a landing to the table's metadata, beside its snapshot."""
    if move_tag:
        tag = {"ref-name": TAG, "type": SnapshotRefType.TAG, "snapshot-id": snapshot}
        yield SetSnapshotRefUpdate.model_validate(tag)
    # Once in a table's life: from then on it would only make each request longer.
    if MARK not in table.properties:
        yield SetPropertiesUpdate(updates={MARK: "true"})


def _stamped(update: TableUpdate, base: TableMetadata, now_ms: int) -> TableUpdate:
    """The update with a time that is never before the base's.

    pyiceberg stamps the host's time, and hosts' clocks differ; Iceberg in Java, Go and Rust refuses to load a table
    whose snapshot log goes back by more than a minute. At least one millisecond is added to the base's time, because
    pyiceberg takes an unchanged time for a missing one and puts the host's time there.
    """
    if not isinstance(update, AddSnapshotUpdate):
        return update
    stamp = max(now_ms, base.last_updated_ms + 1)
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"timestamp_ms": stamp}))
