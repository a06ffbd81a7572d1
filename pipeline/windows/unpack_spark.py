"""Taking aggregates of the lake table apart, on Spark: one job looks where they are, a second one writes their files anew.

Rows never pass through the JVM, as in a compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.spark.spark_job import run_tasks
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.typed.account import joined
from headrace.pipeline.typed.codec import decode_parsed
from headrace.pipeline.typed.spark import packed, survey_on
from headrace.pipeline.typed.values import Bound, Parsed, SourceFile, Survey, SurveyOrder
from headrace.pipeline.windows.copy_spark import asked_of
from headrace.pipeline.windows.ports import Unpacker
from headrace.pipeline.windows.unpack_task import UnpackSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkUnpacker(Unpacker):
    session: Callable[[OnWaiting], SparkSession]
    table: IcebergTable
    cores: int

    def survey(self, order: SurveyOrder) -> Survey:
        spec = self.table.staging_spec()
        return asked_of(
            self.session,
            lambda session: survey_on(session, order, spec, cores=self.cores),
            f"looks for aggregates in {self.table.identifier}",
        )

    def unpack(
        self,
        files: Sequence[SourceFile],
        selected: Sequence[Bound],
        streams: Sequence[StreamId],
        shards: Mapping[ShardKey, HashRange],
    ) -> Parsed:
        paths = packed([each.path for each in files], cores=self.cores)
        spec = spec_of(self.table, selected, streams, shards)
        work = _unpacking(paths, spec)
        what = f"takes aggregates of {self.table.identifier} apart"
        return joined(
            map(
                decode_parsed,
                asked_of(self.session, lambda session: run_tasks(session, len(paths), work), what),
            )
        )


def spec_of(
    table: IcebergTable,
    selected: Sequence[Bound],
    streams: Sequence[StreamId],
    shards: Mapping[ShardKey, HashRange],
) -> UnpackSpec:
    schema = schema_to_pyarrow(table.open().schema())
    return UnpackSpec(table.staging_spec(), schema, tuple(selected), tuple(streams), dict(shards))


def _unpacking(paths: Sequence[Sequence[str]], spec: UnpackSpec) -> Callable[[int], bytes]:
    # A function inside of a function: Spark pickles it whole, and its imports run on the worker, from the shipped zip.
    def work(number: int) -> bytes:
        from datetime import UTC, datetime

        from headrace.pipeline.typed.codec import encode_parsed
        from headrace.pipeline.windows.unpack_task import unpack_files

        return encode_parsed(unpack_files(paths[number], spec, now=lambda: datetime.now(UTC)))

    return work
