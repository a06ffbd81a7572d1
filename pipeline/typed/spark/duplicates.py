"""Spark's part of leaving out duplicates: it brings the rows of a wave, and the keys of the typed table's rows, with
the same key together.

record, row, reason, data  +  key_0, ..., arrival  ──►  record, row, reason, data, key_0, ..., arrival, fresh
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.pipeline.typed.tasks.duplicates import ARRIVAL, FRESH, key_names, small_columns
from headrace.pipeline.typed.tasks.read import RECORD_FIELDS
from headrace.pipeline.typed.tasks.write import IS_LEFT_OUT, own_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


def keys_type(columns: pa.Schema) -> StructType:
    """The Spark columns of the rows that the typed table has already, in the types of the table; rows of a wave
    may have narrower types, by older settings. `columns`: as
    `headrace.pipeline.typed.tasks.duplicates.key_columns` gives them.
    """
    from pyspark.sql.types import StructType

    struct = StructType()
    for name, column in zip((*key_names(len(columns) - 1), ARRIVAL), small_columns(columns), strict=True):
        struct = struct.add(name, _spark_type(column.type))
    return struct


def rows_type(columns: pa.Schema, *, filtered: bool) -> StructType:
    """The Spark columns of the wave's rows that a Python task has decoded. `filtered`: whether the target has a
    filter.
    """
    from pyspark.sql.types import StructType

    row = _spark_type(pa.struct([pa.field(column.name, column.type) for column in own_columns(columns)]))
    record = StructType()
    # Not by StructType.fromDDL: it asks the active session of the process, and a run's session needn't be that.
    for name, kind in RECORD_FIELDS:
        record = record.add(name, kind)
    struct = StructType().add("record", record).add("row", row)
    struct = struct.add("reason", "string").add("data", "binary")
    return struct.add(IS_LEFT_OUT, "boolean") if filtered else struct


def _spark_type(kind: pa.DataType) -> DataType:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def rows_beside_earlier(rows: DataFrame, earlier: DataFrame, by: Sequence[str], *, tasks: int) -> DataFrame:
    """The wave's `rows` and the table's `earlier` ones together, all rows of a key in one task, sorted as
    `headrace.pipeline.typed.tasks.duplicates` needs them.
    """
    from pyspark.sql import functions as F  # noqa: N812

    names = key_names(len(by))
    arrival = F.col("record.arrival_ts")
    keys = [
        F.col("row").getField(name).cast(earlier.schema[key].dataType)
        for name, key in zip(by, names, strict=True)
    ]
    # A row without an arrival, or with a null in its key, is compared with none; nor is one that goes to quarantine.
    is_whole = arrival.isNotNull() & F.col("reason").isNull()
    for key in keys:
        is_whole = is_whole & key.isNotNull()
    fresh = rows.select(
        "record",
        "row",
        "reason",
        "data",
        *([IS_LEFT_OUT] if IS_LEFT_OUT in rows.columns else []),
        *(F.when(is_whole, key).alias(name) for name, key in zip(names, keys, strict=True)),
        arrival.alias(ARRIVAL),
        F.lit(True).alias(FRESH),
    )
    all_rows = fresh.unionByName(earlier.withColumn(FRESH, F.lit(False)), allowMissingColumns=True)
    # Else all rows that are compared with none would come to one task.
    place = F.when(F.col(names[0]).isNotNull(), F.hash(*names)).otherwise(F.hash("record.number"))
    record = F.col("record")
    return all_rows.repartition(tasks, place).sortWithinPartitions(
        *names,
        FRESH,
        ARRIVAL,
        # Rows that arrived at the same time have an order, too: a wave that is done again leaves out the same ones.
        record["stream"],
        record["stream_epoch"],
        F.length(record["sequence_number"]),
        record["sequence_number"],
        record["sub_sequence_number"],
        record["shard_id"],
    )
