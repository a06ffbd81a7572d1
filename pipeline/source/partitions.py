"""The input partitions that Spark hands from the planning of a query to its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.source.lake_read import FilesPart, read_files
from headrace.pipeline.source.shard_read import ShardPart, read_shard


def of_files(parts: Iterable[FilesPart]) -> list[InputPartition]:
    return [InputPartition(part) for part in parts]


def of_shards(parts: Iterable[ShardPart], pages: Pages) -> list[InputPartition]:
    """Spark's partitions for parts of shards.

    `pages`: the reader of Kinesis, with the identity of the process that has registered the source.
    """
    return [InputPartition((part, pages)) for part in parts]


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    match partition.value:
        case FilesPart() as part:
            return read_files(part)
        case (ShardPart() as part, pages):
            return read_shard(part, pages)
        case _:
            # Spark makes a partition without a value where a plan has none.
            return iter(())
