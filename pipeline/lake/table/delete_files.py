"""Which delete files of other engines delete rows of a data file. Pure functions on manifest entries.

    kind of delete file                 the data files of which it deletes rows
    positions, of one file              that file: named in the entry (every deletion vector does), or by the bounds of its column of paths
    positions, of several files         those of its partition that its bounds of paths don't exclude
    values (equality)                   older ones of its partition; of all partitions, where it has no partition itself

A delete file doesn't count for younger data files: the sequence number of the data file must be at most that of
the delete file; for one by values, it must be lower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
)
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.typedef import Record

_NEWEST_FORMAT = 3
_REFERENCED = [column.field_id for column in DATA_FILE_TYPE[_NEWEST_FORMAT].fields].index(143)
"""Where an entry has the path of the only data file that its delete file is about."""


def entries_of(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """The live entries of a manifest, where entries of delete files have all columns of Iceberg's format version
    3: pyiceberg reads the columns of version 2 only, and these don't tell to which data file a deletion vector
    belongs.
    """
    if manifest.content is not ManifestContent.DELETES:
        return manifest.fetch_manifest_entry(io)
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[_NEWEST_FORMAT],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return [
            _inherit_from_manifest(entry, manifest)
            for entry in reader
            if entry.status is not ManifestEntryStatus.DELETED
        ]


@dataclass(slots=True)
class Deletes:
    """The delete files of one snapshot."""

    _by_name: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    _by_place: DeleteFileIndex = field(default_factory=DeleteFileIndex)
    _by_values: list[ManifestEntry] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[ManifestEntry]) -> Deletes:
        deletes = cls()
        for entry in entries:
            deletes._add(entry)
        return deletes

    @property
    def has_values(self) -> bool:
        """Whether some rows are deleted by values (equality deletes)."""
        return bool(self._by_values)

    def _add(self, entry: ManifestEntry) -> None:
        file = entry.data_file
        if file.content is DataFileContent.EQUALITY_DELETES:
            self._by_values.append(entry)
        elif file.content is DataFileContent.POSITION_DELETES:
            # A delete file that names its only data file, as deletion vectors do, is found by that name.
            if (named := _referenced(file)) is not None:
                self._by_name.setdefault(named, []).append(entry)
            else:
                self._by_place.add_delete_file(entry, partition_key=file.partition)

    def of_file(self, entry: ManifestEntry) -> frozenset[str]:
        """The paths of the delete files that delete rows of this data file."""
        file, age = entry.data_file, entry.sequence_number or 0
        by_name = (
            delete.data_file.file_path
            for delete in self._by_name.get(file.file_path, ())
            if (delete.sequence_number or 0) >= age
        )
        by_place = self._by_place.for_data_file(age, file, partition_key=file.partition)
        return frozenset(
            (*by_name, *(delete_file.file_path for delete_file in by_place), *self._values_of(file, age))
        )

    def _values_of(self, file: DataFile, age: int) -> Iterator[str]:
        for delete in self._by_values:
            deletes = delete.data_file
            is_near = not _has_partition(deletes) or _place(deletes) == _place(file)
            # Deletes by values concern older rows only, and deletes by places those of the same commit, too: so
            # Iceberg's format has it.
            if is_near and (delete.sequence_number or 0) > age:
                yield deletes.file_path


def _referenced(file: DataFile) -> str | None:
    named = file[_REFERENCED] if len(file) > _REFERENCED else None
    return None if named is None else str(named)


def _has_partition(file: DataFile) -> bool:
    return len(file.partition) > 0


def _place(file: DataFile) -> tuple[int, Record]:
    return file.spec_id, file.partition
