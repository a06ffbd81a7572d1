"""Reads rows of a data file with a table's columns. Columns are found by field id, since a column or a part of
one may have been renamed, or added after the file was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.files.not_null import fitted, has_required
from headrace.pipeline.lake.files.stage_place import StagePlace

_FIELD_ID = b"PARQUET:field_id"


@contextmanager
def opened(place: StagePlace, path: str) -> Iterator[pq.ParquetFile]:
    location = f"{place.spec.location.rstrip('/')}/"
    if not path.startswith(location):
        raise WrongShape(f"{path} isn't in the table's folder {location}")
    with (
        place.files.open_input_file(place.path(path[len(location) :])) as source,
        pq.ParquetFile(source) as file,
    ):
        yield file


def rows_of(file: pq.ParquetFile, schema: pa.Schema, group: int | None = None) -> pa.Table:
    """The rows of the file, or of one of its row groups. Columns that the file lacks are null."""
    names = names_in(file)
    kinds = {stored.name: stored.type for stored in file.schema_arrow}
    present = [names[id_of(column)] for column in schema if id_of(column) in names]
    rows = file.read(columns=present) if group is None else file.read_row_group(group, columns=present)
    columns: list[Any] = [
        _fitted(rows[names[id_of(column)]], kinds[names[id_of(column)]], column.type)
        if id_of(column) in names
        else pa.nulls(rows.num_rows, column.type)
        for column in schema
    ]
    return pa.table(columns, schema=schema)


def _fitted(values: Any, kind: pa.DataType, target: Any) -> Any:
    """The values in the type that the file has. `kind`: the type of the values, with the field ids of its parts."""
    if not pa.types.is_nested(kind):
        return values.cast(target)
    # Arrow finds the fields of a struct by their names, and makes those null that it doesn't find.
    values_by_id = _viewed(values, _by_id(kind)).cast(_by_id(target))
    if not has_required([pa.field("", target)]):
        return _viewed(values_by_id, target)
    return pa.chunked_array([fitted(chunk, target) for chunk in values_by_id.chunks], target)


def _viewed(values: Any, kind: Any) -> Any:
    """These values with fields that have the names of this type."""
    return pa.chunked_array([chunk.view(kind) for chunk in values.chunks], kind)


def _by_id(kind: Any) -> Any:
    """The type with the ids of its fields as their names."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([pa.field(id_of(field).decode(), _by_id(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_by_id(kind.key_type), _by_id(kind.item_type))
    if types.is_large_list(kind):
        return pa.large_list(_by_id(kind.value_type))
    return pa.list_(_by_id(kind.value_type)) if types.is_list(kind) else kind


def names_in(file: pq.ParquetFile) -> dict[bytes, str]:
    """The names of a Parquet file's columns, by the field ids that Iceberg finds them by."""
    return {id_of(column): column.name for column in file.schema_arrow}


def id_of(column: pa.Field[Any]) -> bytes:
    number: bytes | None = (column.metadata or {}).get(_FIELD_ID)
    if number is None:
        raise WrongShape(f"the column {column.name} has no field id")
    return number


def with_id(name: str, kind: pa.DataType, number: int) -> pa.Field[Any]:
    return pa.field(name, kind, metadata={_FIELD_ID: str(number).encode()})
