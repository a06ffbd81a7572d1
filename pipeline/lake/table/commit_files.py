"""The staged files of one commit, over all of its attempts.

Before each attempt it is checked that they exist, because something else may have deleted them. After a refusal
the next attempt uses again what the first one made of them: the manifest entries (from the Parquet footers) and
the manifest. So a second attempt takes less time, in which fewer other writers can commit first.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_STRUCTS,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
)
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _MergeAppendFiles
from pyiceberg.utils.concurrent import ExecutorFactory

from headrace.pipeline.core.landing.manifests import Mergeable, plan_merges
from headrace.pipeline.core.ledger.batch import StagedFile, TakenFile
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Transient
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.data_files import data_files

_STALE = timedelta(hours=12)
"""Orphan removal may delete files that are a day old. With half of that, a late commit never names a deleted file."""
_LOOKS_AT_ONCE = 8
"""Staged files whose existence is asked for at the same time: a wave on a cluster may have staged dozens of files."""

_ADDED_BY = [field.name for field in MANIFEST_LIST_FILE_STRUCTS[DEFAULT_READ_VERSION].fields].index(
    "added_snapshot_id"
)


class CommitFiles:
    def __init__(
        self,
        files: tuple[StagedFile, ...] = (),
        also: tuple[StagedFile, ...] = (),
        taken: tuple[TakenFile, ...] = (),
    ) -> None:
        """The files of a commit, which are checked before it.

        `files`: all that are proposed. An attempt may land a part of them. `also`, `taken`: files of another table that
        have to be there.
        """
        self._checked = (*files, *also)
        self._taken = taken
        self._entries: dict[str, DataFile] = {}
        self._manifest: ManifestFile | None = None
        self._named: tuple[str, ...] = ()
        """The paths of the data files that the manifest names."""
        self._form: object = None
        """What the entries and the manifest depend on, beside the files."""

    def check(self, io: FileIO, *, now: datetime, storage: str) -> None:
        """Raise an error for staged files that are old or gone: Iceberg would commit a file that doesn't exist,
        and then every scan would fail. Also for taken files that are gone, or that may be gone before the
        decision of the commit is carried out.
        """
        oldest = min((file.staged_at for file in self._checked), default=None)
        if oldest is not None and now - oldest > _STALE:
            raise Transient(
                f"files staged at {oldest.isoformat()} are older than {_STALE}, and upkeep may delete them at any "
                "time. Nothing was committed; the next wave reads their records again"
            )
        # The look counts, and not the age of the file: until then nothing had replaced it.
        oldest_look = min((file.seen_at for file in self._taken), default=now)
        if now - oldest_look > _STALE:
            raise Transient(
                f"files whose rows the commit decides about were looked at at {oldest_look.isoformat()}, more than {_STALE} ago. A compaction may have "
                "replaced them since, and then upkeep may delete them at any time. Nothing was committed; the next try reads the table anew"
            )
        paths = [*(file.path for file in self._checked), *(file.path for file in self._taken)]
        if self._manifest is not None:
            # The manifest looks like an orphan, too, and a process may stand still for days after a refusal.
            paths.append(self._manifest.manifest_path)
        with asking(storage), ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
            exists = dict(zip(paths, pool.map(lambda path: io.new_input(path).exists(), paths), strict=True))
        if self._manifest is not None and not exists.pop(self._manifest.manifest_path):
            self._manifest = None
        gone = [path for path, is_there in exists.items() if not is_there]
        if gone:
            raise Transient(
                f"{counted(len(gone), 'file')} of the commit can't be found any more, the first is {gone[0]}: something else deleted "
                "it. Nothing was committed; the next wave reads the records again"
            )

    def entries(self, files: tuple[StagedFile, ...], table: TableMetadata) -> Iterator[DataFile]:
        """The manifest entries of these files, which land."""
        # Entries are written by all of these: where the table was changed since the last attempt, they are made anew.
        form = (table.location, table.format_version, table.schema(), table.spec(), table.properties)
        if form != self._form:
            self._form, self._entries, self._manifest = form, {}, None
        new = tuple(file for file in files if file.path not in self._entries)
        self._entries |= {entry.file_path: entry for entry in data_files(new, table)}
        return (self._entries[file.path] for file in files)

    def manifest(self, append: Append, files: list[DataFile]) -> ManifestFile:
        named = tuple(file.file_path for file in files)
        if self._manifest is None or named != self._named:
            self._manifest, self._named = append.write_added(files), named
        return append.own(self._manifest)


class Merging(_MergeAppendFiles):
    """A pyiceberg commit that also merges manifests of main. Otherwise each commit would add one more manifest."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merge manifests by `plan_merges` instead of by pyiceberg's plan."""
        # Manifests of delete files stay as they are: other engines have written them.
        data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
        # The table's own `commit.manifest-merge.enabled` counts.
        if not self._merge_enabled:
            return manifests
        candidates = [
            Mergeable(
                (manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
                manifest.manifest_length,
                manifest.partition_spec_id,
            )
            for manifest in data
        ]
        merges = plan_merges(candidates, at_once=self._min_count_to_merge, at_most=self._target_size_bytes)
        if not merges:
            return manifests
        merger = _ManifestMergeManager(
            target_size_bytes=self._target_size_bytes,
            min_count_to_merge=self._min_count_to_merge,
            merge_enabled=True,
            snapshot_producer=self,
        )
        # Not merge_manifests, which has a plan of its own.
        remade = [
            merger._create_manifest(data[places[0]].partition_spec_id, [data[place] for place in places])  # noqa: SLF001
            for places in merges
        ]
        gone = {data[place].manifest_path for places in merges for place in places}
        return [*remade, *(manifest for manifest in manifests if manifest.manifest_path not in gone)]


class Append(Merging):
    """pyiceberg's append, which can use a manifest that an earlier attempt has written.

    The entries of such a manifest have no snapshot id: readers take the id from the manifest list, as Iceberg's
    format says.
    """

    def __init__(
        self, transaction: Transaction, io: FileIO, summary: dict[str, str], files: CommitFiles
    ) -> None:
        super().__init__(Operation.APPEND, transaction, io, snapshot_properties=summary)
        self._commit_files = files

    def _manifests(self) -> list[ManifestFile]:
        # At the same time, as in pyiceberg: on S3 each takes tens of milliseconds.
        existing = ExecutorFactory.get_or_create().submit(self._existing_manifests)
        added = [self._commit_files.manifest(self, self._added_data_files)] if self._added_data_files else []
        return self._process_manifests([*added, *existing.result()])

    def write_added(self, files: list[DataFile]) -> ManifestFile:
        metadata = self._transaction.table_metadata
        nobody: int = None  # type: ignore[assignment]  # the format allows it, pyiceberg's type doesn't
        writer = write_manifest(
            metadata.format_version,
            metadata.spec(),
            metadata.schema(),
            self.new_manifest_output(),
            nobody,
            self._compression,
        )
        with writer:
            for file in files:
                writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file))
        return writer.to_manifest_file()

    def own(self, manifest: ManifestFile) -> ManifestFile:
        """A copy of the manifest, as one that this snapshot adds. A copy, because pyiceberg writes the sequence number
        into it."""
        mine = ManifestFile(*(manifest[place] for place in range(len(manifest))))
        mine[_ADDED_BY] = self.snapshot_id
        return mine
