"""Columns of data files are found by field id, also those within structs, lists and maps."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from headrace.pipeline.lake.files.file_rows import rows_of


def columns(*parts: tuple[int, str, IcebergType]) -> pa.Schema:
    """The columns of a table with a list, a map and a struct of such structs."""
    part = StructType(*(NestedField(number, name, kind) for number, name, kind in parts))
    return schema_to_pyarrow(
        Schema(
            NestedField(1, "items", ListType(2, part, element_required=False)),
            NestedField(3, "by_name", MapType(4, StringType(), 5, part, value_required=False)),
            NestedField(6, "one", StructType(NestedField(7, "inner", part))),
        )
    )


def rows(part: dict[str, object] | None) -> dict[str, object]:
    return {"items": [part], "by_name": [("k", part)], "one": {"inner": part}}


def test_values_within_a_column_are_found_by_field_id_after_another_engine_has_renamed_them(tmp_path: Path):
    written = columns((10, "sku", StringType()), (11, "n", IntegerType()), (12, "gone", StringType()))
    path = tmp_path / "file.parquet"
    found = [rows({"sku": "a", "n": 1, "gone": "x"}), rows(None)]
    pq.write_table(pa.Table.from_pylist(found, written), path, store_schema=False)
    # `sku` was renamed, `n` was widened, and `gone` was dropped before a new field got its name.
    now = columns((13, "gone", LongType()), (11, "n", LongType()), (10, "code", StringType()))
    with pq.ParquetFile(path) as file:
        told = rows_of(file, now)
    assert told.schema == now
    assert told.to_pylist() == [rows({"gone": None, "n": 1, "code": "a"}), rows(None)]
