"""Makes the entry for an Iceberg manifest from a staged file and its Parquet footer.

The footer came with the result of staging. pyiceberg's `add_files` would read every footer from storage again,
one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    _check_pyarrow_schema_compatible,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import WrongShape

_FIELD_ID = b"PARQUET:field_id"
_EPOCH = date(1970, 1, 1)
_BOUNDS_OF_ARRIVAL = {"write.metadata.metrics.column.arrival_ts": "full"}
"""Set here and not in the table, where another tool may change it: by these bounds a file proves that its rows are of
one day."""


def data_files(files: tuple[StagedFile, ...], table: TableMetadata) -> Iterator[DataFile]:
    """The manifest entries of these files. Raises WrongShape for a file that doesn't fit the table."""
    schema = table.schema()
    plan = compute_statistics_plan(schema, {**table.properties, **_BOUNDS_OF_ARRIVAL})
    paths = parquet_path_to_id_mapping(schema)
    for file in files:
        footer = _footer(file)
        _check_columns(file, footer.schema.to_arrow_schema(), table)
        statistics = data_file_statistics_from_parquet_metadata(footer, plan, paths)
        # Iceberg's day transform counts days since 1970.
        day = Record((date.fromisoformat(file.partition) - _EPOCH).days)
        try:
            # Fails if the footer's first and last arrival are of different days.
            shown = statistics.partition(table.spec(), schema)
        except ValueError as error:
            raise _wrong(file, f"the file's rows aren't of one day ({error})") from error
        if shown != day:
            raise _wrong(
                file, f"the file's footer doesn't show that all its rows arrived on {file.partition}"
            )
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat.PARQUET,
            partition=day,
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=table.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _footer(file: StagedFile) -> pq.FileMetaData:
    try:
        footer = pq.read_metadata(pa.BufferReader(file.footer))
    except (pa.ArrowException, OSError) as error:
        raise _wrong(file, f"the file's footer can't be read ({error})") from error
    if footer.num_rows != file.rows or not file.rows:
        raise _wrong(
            file,
            f"the file's footer says {counted(footer.num_rows, 'row')}, the staging result says {file.rows}",
        )
    return footer


def _check_columns(file: StagedFile, columns: pa.Schema, table: TableMetadata) -> None:
    """Refuse a file whose columns lack the table's field ids: Iceberg would accept the commit, and no reader could find
    the columns afterwards.
    """
    ids = ids_of(table.schema())
    for column in columns:
        carried = (column.metadata or {}).get(_FIELD_ID)
        if column.name not in ids or carried is None or int(carried) != ids[column.name]:
            raise _wrong(
                file,
                f"the file's column {column.name} carries field id {'none' if carried is None else carried.decode()}, "
                f"the table has {ids.get(column.name, 'no such column')}",
            )
    try:
        # A private function of pyiceberg, which its own `add_files` calls as well.
        _check_pyarrow_schema_compatible(table.schema(), columns, format_version=table.format_version)
    except ValueError as error:
        raise _wrong(file, f"the file's columns don't fit the table's: {error}") from error


def ids_of(schema: Schema) -> dict[str, int]:
    return {column.name: column.field_id for column in schema.fields}


def _wrong(file: StagedFile, why: str) -> WrongShape:
    return WrongShape(
        f"the staged file {file.path} can't become part of the table: {why}. Nothing was committed and no position "
        "moved; files must be written with the staging spec of this table"
    )
