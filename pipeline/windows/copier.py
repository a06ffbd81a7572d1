"""Copying rows of the lake table into the table of a window: one Spark job finds out which rows are there, a
second one copies them.

Rows never pass through the JVM, as in a compaction: a Python task reads row groups of the lake table's files, and
writes files of the window's table that no commit names yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.pipeline.lake.staging.stage_codec import decode_all
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work, packed
from headrace.pipeline.typed.account import one_report
from headrace.pipeline.typed.tasks.surveying import survey_by
from headrace.pipeline.typed.values import Parsed, ReadUnit, Survey, SurveyOrder, WavePlan
from headrace.pipeline.windows.copy_task import CopySpec
from headrace.pipeline.windows.ports import Copier

RUN_AGAIN = "Nothing was committed, and no position moved; run the window again"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCopier(Copier):
    """Copies rows of the lake table into a window's table by Spark's Python tasks."""

    tasks: Tasks
    source: IcebergTable
    table: IcebergTable

    def survey(self, order: SurveyOrder) -> Survey:
        return survey_by(self.tasks, order, self.source.staging_spec(), self._job)

    def copy(self, plan: WavePlan) -> Parsed:
        bounds = tuple(planned.bound for planned in plan.ranges)
        spec = CopySpec(self.source.staging_spec(), self.table.staging_spec(), bounds)
        units = packed(plan.units, cores=self.tasks.cores)
        reports = self.tasks.run(len(units), _copying(units, spec), self._job)
        return one_report(decode_all(reports, Parsed))

    @property
    def _job(self) -> Job:
        return Job(f"the Spark job that copies records to {self.table.identifier}", RUN_AGAIN)


def _copying(units: Sequence[Sequence[ReadUnit]], spec: CopySpec) -> Work:
    def work(number: int, now: Now) -> bytes:
        # Imports within the function run on Spark's worker, from the shipped zip: the function is pickled without its
        # module.
        from uuid import uuid4

        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.windows.copy_task import copy_units

        return encode(copy_units(units[number], spec, now=now, fresh=lambda: uuid4().hex))

    return work
