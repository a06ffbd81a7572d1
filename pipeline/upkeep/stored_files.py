"""The files in the folders of a table: which are there, which of them the table's metadata names, and how they are
deleted.

Only files with names that Headrace gives are seen, and only below the table's own location and in the folder for state:

    <table>/data/arrival_ts_day=2026-01-31/<id>.parquet      staged, landed and compacted records
    <lineage table>/data/00000-0-4ead4ace-...parquet         recorded ledgers
    <table>/metadata/4ead4ace-...-m0.avro, snap-...avro      manifests and manifest lists of Headrace's commits
    <table>/metadata/00042-<uuid>.metadata.json              metadata files, of any engine: see `_FORMS`
    <state>/<uuid of the table>-<id>.json                    positions that are too large for a summary
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pyarrow import ArrowException, fs
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.table.append import OWN_COMMIT
from headrace.pipeline.lake.table.history import older_metadata
from headrace.pipeline.lake.table.live_files import STAGED
from headrace.pipeline.lake.table.metadata_files import read_metadata
from headrace.pipeline.lake.table.position_chain import STATE
from headrace.pipeline.lake.table.state_files import Pointer, StateFiles
from headrace.pipeline.upkeep.deletion_plan import StoredFile

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_FORMS = (
    re.compile(STAGED),
    re.compile(rf"data/\d{{5}}-\d+-{OWN_COMMIT}-[0-9a-f-]{{27}}\.parquet"),  # of the lineage table
    re.compile(rf"metadata/(?:snap-\d+-\d+-)?{OWN_COMMIT}-[0-9a-f-]{{27}}(?:-m\d+)?\.avro"),
    # Other engines give their metadata files such names, too. A writer that has written one and is still to commit it
    # can't do so after the fence: the catalog replaces the very metadata file that the writer read, and no other.
    re.compile(rf"metadata/\d{{5,}}-{_UUID}(?:\.gz)?\.metadata\.json"),
)
_AT_ONCE = 8
"""Files that are read or deleted at the same time."""
_OWNER = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-f-]{36})"')
_BEGINNING = 64 * 1024
"""Bytes of a metadata file that have the UUID of its table: all engines write the UUID before the schemas and the
snapshots."""


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The paths of files that one version of the table's metadata names, in the form of a folder's listing."""

    all: frozenset[str]
    """By any snapshot of the newest metadata, or of an older metadata file that its log names; and these metadata
    files."""
    live: frozenset[str]
    """By main's head. Each of these files must exist."""


@dataclass(slots=True)
class StoredFiles:
    """The files in the folder of a table. `table`: the table as it was loaded."""

    table: Table
    states: StateFiles
    _entries: dict[str, frozenset[str]] = field(default_factory=dict)
    """What a manifest names, by the manifest's path. Manifests never change."""
    _owners: dict[str, str | None] = field(default_factory=dict)
    """The UUID of the table that a metadata file is of, by the file's path; None where the file doesn't begin with one.
    Nor do these change."""

    def listing(self) -> tuple[StoredFile, ...]:
        """All files in the table's folders whose names have a form that Headrace gives."""
        root = self.table.location().rstrip("/")
        files = [*self._files_in(f"{root}/data"), *self._files_in(f"{root}/metadata")]
        files.extend(self._files_in(self.states.location, self.states.io()))
        return tuple(file for file in files if self._is_ours(file.path))

    def named(self) -> NamedFiles:
        metadata = [self.table.metadata, *older_metadata(self.table)]
        current = {known_snapshot.snapshot_id for known_snapshot in metadata[0].snapshots}
        snapshots = {
            known_snapshot.snapshot_id: known_snapshot
            for version in reversed(metadata)
            for known_snapshot in version.snapshots
        }
        # The log's files count whether or not they still exist: a reader with the older metadata needs what they name.
        files = {self.table.metadata_location, *(entry.metadata_file for entry in metadata[0].metadata_log)}
        paths = {self._path(file) for file in files} | set(self._states_of(snapshots.values()))
        for snapshot in snapshots.values():
            paths |= self._of_snapshot(snapshot, must_exist=snapshot.snapshot_id in current)
        head = self.table.current_snapshot()
        live = {self._path(self.table.metadata_location)}
        if head is not None:
            live |= {*self._of_snapshot(head, must_exist=True), *self._states_of([head])}
        return NamedFiles(frozenset(paths), frozenset(live))

    def of_others(self, listing: Sequence[StoredFile], named: NamedFiles) -> frozenset[str]:
        """The files of other tables in this table's folder. A table that was renamed keeps its folder, and the next
        table that is made under the old name gets the same folder from the catalog."""
        # Only metadata files that this table doesn't name can be another table's, and only they tell which table.
        unnamed = [file for file in listing if file.version is not None and file.path not in named.all]
        new = [file for file in unnamed if file.path not in self._owners]
        system = self._system(self.table.location())
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            owners = pool.map(lambda file: _owner(file, system), new)
            self._owners |= dict(zip((file.path for file in new), owners, strict=True))
        of_tables: dict[str, list[StoredFile]] = {}
        for metadata_file in unnamed:
            owner = self._owners[metadata_file.path]
            if owner not in {None, str(self.table.metadata.table_uuid)}:
                of_tables.setdefault(str(owner), []).append(metadata_file)
        paths = {file.path for files in of_tables.values() for file in files}
        for foreign in of_tables.values():
            # The newest one names all that the other table has, and its log names the older ones.
            paths |= self._named_by(max(foreign, key=lambda file: (file.version or 0, file.path)))
        return frozenset(paths)

    def check(self, listing: Sequence[StoredFile], named: NamedFiles) -> None:
        """Raise an error where a file that readers need isn't in the listing: then the names in the metadata
        can't be compared with those in the storage, and every file would look unnamed.
        """
        missing = sorted(filter(self._is_ours, named.live - {file.path for file in listing}))
        if missing:
            raise WrongShape(
                f"{counted(len(missing), 'file')} of the table's newest snapshot can't be found in its folder, the first is {missing[0]}. "
                "Nothing was deleted; restore the file, or roll the table back to a snapshot whose files exist"
            )

    def delete(self, files: Iterable[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        """Delete files. Returns those that are gone, and the error of the first one that couldn't be deleted."""
        root = f"{self._path(self.table.location())}/"
        ours, states = (
            self._system(self.table.location()),
            self._system(self.states.location, self.states.io()),
        )

        def one(file: StoredFile) -> str | None:
            # A last look before the deletion, in case a plan was made from other names: a deleted file never comes
            # back.
            if not self._is_ours(file.path):
                raise ValueError(f"{file.path} isn't a file of Headrace in a folder of the table")
            try:
                (ours if file.path.startswith(root) else states).delete_file(file.path)
            except FileNotFoundError:
                pass  # another upkeep job was faster
            except (OSError, ArrowException) as error:
                return f"{file.path}: {error}"
            return None

        files = tuple(files)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            errors = tuple(pool.map(one, files))
        gone = tuple(file for file, error in zip(files, errors, strict=True) if error is None)
        return gone, next((error for error in errors if error is not None), None)

    # --- what the metadata names ------------------------------------------------------------------------------

    def _of_snapshot(self, snapshot: Snapshot, *, must_exist: bool) -> frozenset[str]:
        """The manifest list of a snapshot, its manifests, and all files that these name. Other engines delete the
        manifest lists of snapshots that they expire, so that those of former snapshots may be gone."""
        paths_named = {self._path(snapshot.manifest_list)} if snapshot.manifest_list else set()
        try:
            for manifest in snapshot.manifests(self.table.io):
                paths_named |= {self._path(manifest.manifest_path)}
                # A manifest never changes, and most of them are in each snapshot: each is read once in a look.
                if manifest.manifest_path not in self._entries:
                    # Entries of removed files, too: an older snapshot may still name such a file by this manifest only.
                    entries = manifest.fetch_manifest_entry(self.table.io, discard_deleted=False)
                    paths = frozenset(self._path(entry.data_file.file_path) for entry in entries)
                    self._entries[manifest.manifest_path] = paths
                paths_named |= self._entries[manifest.manifest_path]
        except FileNotFoundError as error:
            if must_exist:
                raise WrongShape(
                    f"a file of the table's snapshot {snapshot.snapshot_id} is gone ({error}). Nothing was deleted; restore the file, "
                    "or expire the snapshot"
                ) from error
        return frozenset(paths_named)

    def _states_of(self, snapshots: Iterable[Snapshot]) -> Iterator[str]:
        for snapshot in snapshots:
            pointer = snapshot.summary.additional_properties.get(STATE) if snapshot.summary else None
            if pointer is not None:
                # Both: the delta file of this snapshot, and the full file that an earlier snapshot has written.
                yield from (self._path(self.states.path(name)) for name in Pointer.read(pointer).names)

    def _named_by(self, newest: StoredFile) -> frozenset[str]:
        """What another table's newest metadata file in this folder names. Some of it may be gone."""
        place = f"{self.table.location().rstrip('/')}/metadata/{newest.path.rpartition('/')[2]}"
        metadata = read_metadata(self.table.io, place, of="another table in the same folder")
        foreign = Table(self.table.name(), metadata, place, self.table.io, self.table.catalog)
        paths = {self._path(entry.metadata_file) for entry in metadata.metadata_log}
        for version in (metadata, *older_metadata(foreign)):
            for snapshot in version.snapshots:
                paths |= self._of_snapshot(snapshot, must_exist=False)
        return frozenset(paths)

    # --- storage ----------------------------------------------------------------------------------------------

    def _is_ours(self, path: str) -> bool:
        """Whether a file is in a folder of the table, and has a name that Headrace gives."""
        root, states = (f"{self._path(folder)}/" for folder in (self.table.location(), self.states.location))
        if path.startswith(root):
            return any(form.fullmatch(path[len(root) :]) for form in _FORMS)
        own = rf"{self.table.metadata.table_uuid.hex}-[0-9a-f]{{32}}\.json"
        return path.startswith(states) and re.fullmatch(own, path[len(states) :]) is not None

    def _files_in(self, location: str, io: FileIO | None = None) -> Iterator[StoredFile]:
        """All files below a folder."""
        selector = fs.FileSelector(self._path(location), recursive=True, allow_not_found=True)
        for info in self._system(location, io).get_file_info(selector):
            if info.type is fs.FileType.File:
                yield StoredFile(info.path, info.size or 0)

    def _system(self, location: str, io: FileIO | None = None) -> fs.FileSystem:
        properties = (io or self.table.io).properties
        arrow = io if isinstance(io, PyArrowFileIO) else load_file_io(properties, location)
        if not isinstance(arrow, PyArrowFileIO):
            arrow = PyArrowFileIO(properties)
        scheme, netloc, _ = PyArrowFileIO.parse_location(location, properties)
        return arrow.fs_by_scheme(scheme, netloc)

    def _path(self, location: str) -> str:
        """A location as a listing has it: without scheme, and on object stores with the bucket."""
        return PyArrowFileIO.parse_location(location, self.table.io.properties)[2].rstrip("/")


def _owner(file: StoredFile, system: fs.FileSystem) -> str | None:
    """The UUID of the table that a metadata file is of."""
    packed = "gzip" if ".gz." in file.path else None
    try:
        with system.open_input_stream(file.path, compression=packed) as source:
            match = _OWNER.search(source.read(_BEGINNING))
    except FileNotFoundError:
        return None  # another upkeep job was faster
    return None if match is None else match.group(1).decode()
