"""Deletes as other engines make them in a merge-on-read table: a delete file names rows, and the data file stays. pyiceberg can't write
delete files, so this module writes their manifests by hand."""

from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

_PATH, _PLACE = 2147483546, 2147483545
"""Field ids that Iceberg's specification gives to the columns of a position delete file."""


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _VectorManifest(_DeleteManifest):
    """With the columns of format version 3, which pyiceberg can't write."""

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._with_partition(3),
            record_schema=self._with_partition(3),
            schema_name="manifest_entry",
            metadata=self._meta,
        )


class _RowDelta(_FastAppendFiles):
    deletes: DataFile
    manifest: type[_DeleteManifest] = _DeleteManifest

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        with self.manifest(
            metadata.spec(), self.schema(), self.new_manifest_output(), self._snapshot_id, "zstandard"
        ) as writer:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self._snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=self.deletes,
                )
            )
        return [writer.to_manifest_file(), *self._existing_manifests()]


def delete_rows(table: Table, data_file: str, *places: int) -> None:
    """Delete rows of a data file by a position delete file, as Spark's DELETE does in merge-on-read mode."""
    _commit(
        table,
        _entry(
            table,
            data_file,
            _position_deletes(table, data_file, places),
            DataFileContent.POSITION_DELETES,
            len(places),
        ),
    )


def delete_by_vector(table: Table, data_file: str) -> None:
    """Delete a row of a data file by a deletion vector, as Spark does in a table of format version 3. It has no bounds: the entry names the data
    file. The vector itself is left out: nothing here reads it."""
    path = f"{table.location()}/data/{uuid4().hex}-deletes.puffin"
    Path(path.removeprefix("file://")).write_bytes(b"PFA1")
    vector = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PUFFIN,
        partition=Record(_partition_of(table, data_file)),
        record_count=1,
        file_size_in_bytes=4,
        spec_id=table.metadata.default_spec_id,
        referenced_data_file=data_file,
        content_offset=4,
        content_size_in_bytes=40,
    )
    _commit(table, vector, _VectorManifest)


def delete_by_values(table: Table, data_file: str) -> None:
    """Delete rows by an equality delete file, as Flink's upserts do."""
    path = f"{table.location()}/data/{uuid4().hex}-equality.parquet"
    field = table.schema().find_field("sequence_number")
    schema = pa.schema(
        [pa.field(field.name, pa.string(), metadata={"PARQUET:field_id": str(field.field_id)})]
    )
    pq.write_table(pa.table({field.name: ["1"]}, schema), path.removeprefix("file://"))
    _commit(
        table, _entry(table, data_file, path, DataFileContent.EQUALITY_DELETES, 1, equality=[field.field_id])
    )


def _position_deletes(table: Table, data_file: str, places: tuple[int, ...]) -> str:
    path = f"{table.location()}/data/{uuid4().hex}-deletes.parquet"
    schema = pa.schema(
        (
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH)}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_PLACE)}),
        )
    )
    rows = pa.table({"file_path": [data_file] * len(places), "pos": list(places)}, schema)
    pq.write_table(rows, path.removeprefix("file://"))
    return path


def _entry(
    table: Table,
    data_file: str,
    path: str,
    content: DataFileContent,
    rows: int,
    *,
    equality: list[int] | None = None,
) -> DataFile:
    bounds = None if equality else {_PATH: data_file.encode()}
    return DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(_partition_of(table, data_file)),
        record_count=rows,
        file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
        lower_bounds=bounds,
        upper_bounds=bounds,
        equality_ids=equality,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        key_metadata=None,
    )


def _partition_of(table: Table, data_file: str) -> object:
    return next(t.file.partition[0] for t in table.scan().plan_files() if t.file.file_path == data_file)


def _commit(table: Table, deletes: DataFile, manifest: type[_DeleteManifest] = _DeleteManifest) -> None:
    with table.transaction() as change:
        producer = _RowDelta(Operation.APPEND, change, table.io)
        producer.deletes, producer.manifest = deletes, manifest
        producer.commit()
