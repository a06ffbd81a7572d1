"""The data files of one snapshot of the lake table, as its manifests describe them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.types import TimestamptzType

from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.delete_files import Deletes, entries_of

STAGED = r"data/arrival_ts_day=\d{4}-\d\d-\d\d/[0-9a-f]{32}\.parquet"
"""The names, below the table's location, that Headrace gives to data files, and no other engine does."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ZERO = date(1970, 1, 1)
_BY_VALUES = (
    "another engine deleted rows of the table by values (an equality delete), which Headrace can't apply: no file is rewritten until that "
    "engine's rewrite_data_files has applied it"
)


@dataclass(slots=True)
class ManifestReader:
    """Reads each manifest once, because manifests never change. Forgets those that the newest snapshot no longer
    names.
    """

    _entries: dict[str, list[ManifestEntry]] = field(default_factory=dict)

    def look(self, table: Table) -> tuple[LiveFiles, dict[str, ManifestEntry]]:
        """The data files of the table's newest snapshot, and their manifest entries by path."""
        entries = list(self._live(table))
        deletes = Deletes.of(entries)
        data = [entry for entry in entries if entry.data_file.content is DataFileContent.DATA]
        files = tuple(_file(entry, table, deletes) for entry in data)
        live = LiveFiles(files, table.metadata.current_schema_id, _BY_VALUES if deletes.has_values else "")
        return live, {entry.data_file.file_path: entry for entry in data}

    def _live(self, table: Table) -> Iterator[ManifestEntry]:
        head = table.current_snapshot()
        manifests = [] if head is None else head.manifests(table.io)
        self._entries = {
            manifest.manifest_path: self._entries.get(manifest.manifest_path)
            or entries_of(manifest, table.io)
            for manifest in manifests
        }
        for entries in self._entries.values():
            yield from entries


def found_in(table: Table, paths: Collection[str]) -> list[DataFile]:
    """Those of the data files that the newest snapshot has, and of which no other engine has deleted rows by a delete
    file."""
    if not paths:
        return []
    with asking(f"the storage of {'.'.join(table.name())}"):
        live, entries = ManifestReader().look(table)
    untouched = {file.path for file in live.files if not file.deletes and not live.obstacle}
    return [entries[path].data_file for path in paths if path in untouched]


def _file(entry: ManifestEntry, table: Table, deletes: Deletes) -> LiveFile:
    file = entry.data_file
    is_of_spec = file.spec_id == table.metadata.default_spec_id
    # Another engine may have changed the table's partitions: then the value isn't a day.
    day = file.partition[0] if is_of_spec else None
    return LiveFile(
        file.file_path,
        None if day is None else (_DAY_ZERO + timedelta(days=day)).isoformat(),
        rows=file.record_count,
        size=file.file_size_in_bytes,
        # By the bounds in the manifest, so that no data file is opened.
        newest=moment_in(file.upper_bounds, table),
        is_ours=is_of_spec and _is_ours(file.file_path, table),
        deletes=deletes.of_file(entry),
    )


def _is_ours(path: str, table: Table) -> bool:
    root = f"{table.location().rstrip('/')}/"
    # By the name alone: of all data files only such ones are ever compacted or deleted, whatever
    # else lies in the folder.
    return path.startswith(root) and re.fullmatch(STAGED, path[len(root) :]) is not None


def moment_in(bounds: Mapping[int, bytes] | None, table: Table) -> datetime | None:
    """A bound of `arrival_ts` in a data file (the lowest or the highest), from the bounds that the manifest has
    of the file.
    """
    bound = (bounds or {}).get(table.schema().find_field("arrival_ts").field_id)
    if bound is None:
        return None
    micros: int = from_bytes(TimestamptzType(), bound)  # type: ignore[assignment] # of this type it is a number
    return _EPOCH + timedelta(microseconds=micros)
