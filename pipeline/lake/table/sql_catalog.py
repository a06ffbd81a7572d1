"""pyiceberg's SqlCatalog, which reads each metadata file once and copies no snapshots.

pyiceberg's own SqlCatalog reads the table's metadata file at each load, and once more in each commit. It then copies
all snapshots for each commit, and compares the copies: at 1,500 snapshots that is half of the commit's CPU. A metadata
file never changes after it was written, so its content is kept by its location. Which file is the newest is looked up
in the database each time.
"""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from typing import Any

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import ICEBERG_TABLE_TYPE, IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    RemoveSnapshotsUpdate,
    TableRequirement,
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
)
from pyiceberg.typedef import Identifier
from sqlalchemy import Engine, NullPool, bindparam, create_engine, event, select, text, update
from sqlalchemy.exc import OperationalError, ProgrammingError

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.lake.table.metadata_files import read_metadata

_BUSY_MS = 30_000
"""Milliseconds that SQLite waits for another writer's lock; a commit of a second holds it, and several may queue."""
_KEPT = 4
"""Metadata files whose content is kept in memory: those of two tables, before and after a commit."""


_ROWS: Any = IcebergTables.__table__
_TABLES_OF_TODAY = text(
    "SELECT iceberg_type, property_key FROM iceberg_tables, iceberg_namespace_properties LIMIT 0"
)
_OF_A_TABLE = (
    _ROWS.c.catalog_name == bindparam("of_catalog"),
    _ROWS.c.table_namespace == bindparam("of_namespace"),
    _ROWS.c.table_name == bindparam("of_table"),
)
_ROW = select(
    _ROWS.c.table_namespace,
    _ROWS.c.table_name,
    _ROWS.c.metadata_location,
    _ROWS.c.previous_metadata_location,
).where(*_OF_A_TABLE)
_ROW_OF_TABLE = _ROW.where((_ROWS.c.iceberg_type == ICEBERG_TABLE_TYPE) | _ROWS.c.iceberg_type.is_(None))
_SWAP = (
    update(_ROWS)
    .where(*_OF_A_TABLE, _ROWS.c.metadata_location == bindparam("old"))
    .values(metadata_location=bindparam("new"), previous_metadata_location=bindparam("old"))
)
"""Statements are built once, and ask for columns: what SQLAlchemy makes for an object anew each time costs more than SQLite's answer."""


class KeepingSqlCatalog(SqlCatalog):
    def __init__(self, name: str, **properties: str) -> None:
        self._kept: dict[str, TableMetadata] = {}
        if (uri := properties.get("uri", "")).startswith("sqlite"):
            # pyiceberg would make an engine for each catalog, with connections that aren't patient.
            MetastoreCatalog.__init__(self, name, **properties)
            self.engine = sqlite_engine(uri)
            self._init_catalog()
        else:
            super().__init__(name, **properties)
        # In databases with views, pyiceberg looks for rows of tables only.
        self._row = _ROW_OF_TABLE if self._schema_version == "v1" else _ROW

    def _init_catalog(self) -> None:
        if self._is_of_today():
            self._schema_version = "v1"
        else:
            super()._init_catalog()

    def _is_of_today(self) -> bool:
        """Whether the catalog's own tables are there, in the form that pyiceberg would make them in. That is one request, and
        pyiceberg asks three times."""
        try:
            with self.engine.connect() as connection:
                connection.execute(_TABLES_OF_TODAY)
        except (OperationalError, ProgrammingError):
            return False
        return True

    def load_table(self, identifier: str | Identifier) -> Table:
        with self.engine.connect() as connection:
            row: Any = connection.execute(self._row, self._in_database(identifier)).first()
        if row is None:
            raise NoSuchTableError(f"the catalog has no table {identifier}")
        return self._convert_orm_to_iceberg(row)

    def _in_database(self, identifier: str | Identifier) -> dict[str, str]:
        return {
            "of_catalog": self.name,
            "of_namespace": Catalog.namespace_to_string(Catalog.namespace_from(identifier)),
            "of_table": Catalog.table_name_from(identifier),
        }

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location
        if not location:
            raise NoSuchTableError(f"{orm_table.table_namespace}.{orm_table.table_name} has no metadata file")
        metadata = self._kept.get(location)
        if metadata is None:
            io = load_file_io(properties=self.properties, location=location)
            name = f"{orm_table.table_namespace}.{orm_table.table_name}"
            previous = orm_table.previous_metadata_location
            metadata = self._keep(location, read_metadata(io, location, of=name, previous=previous))
        return Table(
            (*Catalog.identifier_to_tuple(str(orm_table.table_namespace)), str(orm_table.table_name)),
            metadata,
            location,
            self._load_file_io(metadata.properties, location),
            self,
        )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Write the new metadata file, then put its location into the table's row in the catalog, if the row
        still has the location of `table`.

        pyiceberg loads the table once more before that. Without the load, the time in which another writer may
        commit first is half as long.
        """
        # The requirements hold for the base, and the swap below finds out whether the base still is the newest one: the
        # two together are the compare-and-swap.
        for requirement in requirements:
            requirement.validate(table.metadata)
        changed = applied(updates, table.metadata, table.metadata_location)
        # A metadata file that says the same would only make the history longer.
        if changed is table.metadata:
            return _answer(changed, table.metadata_location)
        version = self._parse_metadata_version(table.metadata_location) + 1
        places = load_location_provider(changed.location, changed.properties)
        location = places.new_table_metadata_file_location(version)
        # overwrite: the name has a new uuid, so that asking whether the file exists would cost two requests for
        # nothing.
        output = self._load_file_io(changed.properties, location).new_output(location)
        ToOutputFile.table_metadata(changed, output, overwrite=True)
        self._swap(table.name(), table.metadata_location, location)
        # Kept after the swap only: metadata of a refused commit is no table's.
        return _answer(self._keep(location, changed), location)

    def _swap(self, name: Identifier, old: str, new: str) -> None:
        swap = {**self._in_database(name), "old": old, "new": new}
        with self.engine.begin() as connection:
            if connection.execute(_SWAP, swap).rowcount < 1:
                table = ".".join(name)
                raise CommitFailedException(f"another process has updated the table {table}")

    def _keep(self, location: str, metadata: TableMetadata) -> TableMetadata:
        # A new dictionary each time: another thread may read the old one at this moment.
        newest = [
            *((place, content) for place, content in self._kept.items() if place != location),
            (location, metadata),
        ]
        self._kept = dict(newest[-_KEPT:])
        return metadata


@lru_cache(maxsize=16)
def sqlite_engine(url: str) -> Engine:
    """SQLAlchemy's engine for this SQLite database. There is one in each process, because the engine keeps the
    statements that it has compiled.
    """
    # No pool: a SQLite connection that a forked child inherits may corrupt the database, and a pooled connection that
    # is still open at exit warns.
    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "connect", _be_patient)
    return engine


def _be_patient(connection: sqlite3.Connection, _: Any) -> None:
    """Settings of each connection: with WAL readers don't wait for writers; with a timeout writers wait instead of
    failing."""
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL")


def _answer(metadata: TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


def applied(updates: tuple[TableUpdate, ...], base: TableMetadata, location: str) -> TableMetadata:
    """The metadata after the updates. Parts that didn't change are the base's own objects, because no code changes
    metadata in place."""
    context = _TableMetadataUpdateContext()
    changed = base
    for change in updates:
        if isinstance(change, RemoveSnapshotsUpdate):
            changed = without_snapshots(changed, frozenset(change.snapshot_ids))
            context.add_update(change)
        else:
            changed = _apply_table_update(change, changed, context)
    if not context.has_changes():
        return base
    changed = _update_table_metadata_log(changed, location, base.last_updated_ms)
    if changed.last_updated_ms == base.last_updated_ms:
        # Other engines refuse a table whose time goes back, and this host's clock may be behind the last writer's.
        now_ms = round(SystemClock().now().timestamp() * 1000)
        changed = changed.model_copy(update={"last_updated_ms": max(now_ms, base.last_updated_ms + 1)})
    changed.spec().check_compatible(changed.schema())
    changed.sort_order().check_compatible(changed.schema())
    return changed


def without_snapshots(base: TableMetadata, gone: frozenset[int]) -> TableMetadata:
    """The metadata without these snapshots. Raises an error if a ref names one of them, because the ref would
    have to be removed as well.

    pyiceberg's own removal takes a time that grows with the number of removed snapshots times the number of all
    snapshots, and takes the parent's id from the children of removed snapshots. Here, as in Iceberg's Java
    library, the parent's id stays, and the snapshot log begins after the newest removed entry: a log with holes
    would give wrong answers to queries of former times.
    """
    existing = {snapshot.snapshot_id for snapshot in base.snapshots}
    named = {ref.snapshot_id for ref in base.refs.values()}
    if not gone <= existing - named:
        raise CommitFailedException(
            "another commit has removed some of these snapshots, or has put a ref on one"
        )
    log = base.snapshot_log
    removed = [place for place, entry in enumerate(log) if entry.snapshot_id in gone]
    changed = {
        "snapshots": [snapshot for snapshot in base.snapshots if snapshot.snapshot_id not in gone],
        "snapshot_log": log[removed[-1] + 1 :] if removed else log,
        "statistics": [statistic for statistic in base.statistics if statistic.snapshot_id not in gone],
        "partition_statistics": [
            statistic for statistic in base.partition_statistics if statistic.snapshot_id not in gone
        ],
    }
    return base.model_copy(update=changed)
