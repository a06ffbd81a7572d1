"""Takes aggregates of the lake table apart: one Spark job finds out where they are, a second one writes their
files anew.

Rows never pass through the JVM, as in a compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.staging.stage_codec import decode_all
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work, packed
from headrace.pipeline.typed.account import one_report
from headrace.pipeline.typed.tasks.surveying import survey_by
from headrace.pipeline.typed.values import Bound, Parsed, SourceFile, Survey, SurveyOrder
from headrace.pipeline.windows.copier import RUN_AGAIN
from headrace.pipeline.windows.ports import Unpacker
from headrace.pipeline.windows.unpack_task import UnpackSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUnpacker(Unpacker):
    """Takes aggregates of the lake table apart by Spark's Python tasks."""

    tasks: Tasks
    table: IcebergTable

    def survey(self, order: SurveyOrder) -> Survey:
        job = Job(f"the Spark job that looks for aggregates in {self.table.identifier}", RUN_AGAIN)
        return survey_by(self.tasks, order, self.table.staging_spec(), job)

    def unpack(
        self,
        files: Sequence[SourceFile],
        selected: Sequence[Bound],
        streams: Sequence[StreamId],
        shards: Mapping[ShardKey, HashRange],
    ) -> Parsed:
        paths = packed([file.path for file in files], cores=self.tasks.cores)
        work = _unpacking(paths, spec_of(self.table, selected, streams, shards))
        job = Job(f"the Spark job that takes aggregates of {self.table.identifier} apart", RUN_AGAIN)
        return one_report(decode_all(self.tasks.run(len(paths), work, job), Parsed))


def spec_of(
    table: IcebergTable,
    selected: Sequence[Bound],
    streams: Sequence[StreamId],
    shards: Mapping[ShardKey, HashRange],
) -> UnpackSpec:
    schema = schema_to_pyarrow(table.open().schema())
    return UnpackSpec(table.staging_spec(), schema, tuple(selected), tuple(streams), dict(shards))


def _unpacking(paths: Sequence[Sequence[str]], spec: UnpackSpec) -> Work:
    def work(number: int, now: Now) -> bytes:
        # Imports within the function run on Spark's worker, from the shipped zip: the function is pickled without its
        # module.
        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.windows.unpack_task import unpack_files

        return encode(unpack_files(paths[number], spec, now=now))

    return work
