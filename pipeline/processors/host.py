"""Runs record processors on Spark: a task works on its shards one after the other, and each shard has a process
of its own.

    driver: which shards, which states ─► task: records of a shard ─► process of the processor ─► rows ─► Parquet ─► a report

Rows never pass through the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.pipeline.core.shards.sort_texts import row_shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work
from headrace.pipeline.processors.code import ProcessorCode
from headrace.pipeline.processors.codec import all_turns, decode_turns
from headrace.pipeline.processors.ports import ProcessorHost
from headrace.pipeline.processors.task import ProcessSpec, ShardInput
from headrace.pipeline.processors.values import ShardWork, TurnReports, TurnRules, WaveBefore
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.rules.schema import ROW_NUMBER, columns_of_processor
from headrace.pipeline.typed.spark.frames import columns_of
from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped
from headrace.pipeline.typed.tasks.surveying import survey_by
from headrace.pipeline.typed.tasks.write import WriteSpec
from headrace.pipeline.typed.values import Bound, PlannedRange, SourceFile, Survey, SurveyOrder, WavePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHost(ProcessorHost):
    settings: ProcessorSettings
    code: ProcessorCode
    tasks: Tasks
    source: IcebergTable
    table: IcebergTyped
    quarantine: IcebergQuarantine

    def survey(self, order: SurveyOrder) -> Survey:
        return survey_by(self.tasks, order, self.source.staging_spec(), self.job)

    @property
    def rules(self) -> TurnRules:
        return self.code.rules

    def process(
        self,
        plan: WavePlan,
        states: Mapping[ShardKey, WaveBefore],
        files: Sequence[SourceFile],
        streams: Sequence[StreamId],
    ) -> tuple[TurnReports, int]:
        fields = [{"name": ROW_NUMBER, "type": "long", "nullable": True, "metadata": {}}]
        fields += [dict(column.field) for column in columns_of_processor(self.settings.schema)]
        columns, number = self.table.with_columns(columns_of(fields))
        target = WriteSpec(
            self.table.staging_spec(),
            columns,
            self.quarantine.staging_spec(),
            self.quarantine.file_schema(),
            tuple(streams),
            self.settings.version,
        )
        spec = ProcessSpec(self.source.staging_spec(), target, self.code.child, self.rules)
        shards = [_reading(planned, plan, states, files) for planned in plan.ranges]
        bounds = tuple(planned.bound for planned in plan.ranges)
        parts = _dealt(shards, self.settings.parallelism)
        reports = self.tasks.run(len(parts), _processing(parts, bounds, spec), self.job)
        return all_turns(map(decode_turns, reports)), number

    @property
    def job(self) -> Job:
        return Job(
            f"the Spark job that runs the processor {self.settings.name}",
            "Nothing was committed, and no position moved; the next run begins again at the table's positions",
        )


def _reading(
    planned: PlannedRange,
    plan: WavePlan,
    states: Mapping[ShardKey, WaveBefore],
    files: Sequence[SourceFile],
) -> ShardInput:
    name = row_shard(planned.key)
    # Only where a survey has looked at the whole file: of another file nobody knows that it lacks
    # the shard.
    without = {
        file.path
        for file in files
        if file.parts is not None and all(part.name != name for part in file.parts)
    }
    work = ShardWork(planned.key, planned.after, planned.upto.ended, states[planned.key])
    return ShardInput(work, tuple(unit for unit in plan.units if unit.path not in without))


def _dealt(shards: Sequence[ShardInput], parallelism: int | None) -> list[list[ShardInput]]:
    """What each task gets."""
    count = min(len(shards), parallelism or len(shards))
    return [list(shards[number::count]) for number in range(count)]


def _processing(parts: Sequence[Sequence[ShardInput]], bounds: Sequence[Bound], spec: ProcessSpec) -> Work:
    def work(number: int, now: Now) -> bytes:
        # Imports within the function run on Spark's worker, from the shipped zip.
        from uuid import uuid4

        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.processors.task import process_shards

        return encode(process_shards(parts[number], bounds, spec, now=now, fresh=lambda: uuid4().hex))

    return work
