"""Copying rows of the lake table into the table of a window, on Spark: one job looks which rows are there, a second one copies them.

Rows never pass through the JVM, as in a compaction: a Python task reads row groups of the lake table's files, and writes files of the
window's table that no commit names yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.spark.spark_job import cause_of, is_of_spark, run_tasks
from headrace.pipeline.lake.spark.waiting import warn
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.typed.account import joined
from headrace.pipeline.typed.codec import decode_parsed
from headrace.pipeline.typed.spark import packed, survey_on
from headrace.pipeline.typed.values import Parsed, ReadUnit, Survey, SurveyOrder, WavePlan
from headrace.pipeline.windows.copy_task import CopySpec
from headrace.pipeline.windows.ports import Copier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCopier(Copier):
    session: Callable[[OnWaiting], SparkSession]
    source: IcebergTable
    table: IcebergTable
    cores: int

    def survey(self, order: SurveyOrder) -> Survey:
        spec = self.source.staging_spec()
        return self._asked(lambda session: survey_on(session, order, spec, cores=self.cores))

    def copy(self, plan: WavePlan) -> Parsed:
        if not plan.units:
            return Parsed()
        bounds = tuple(each.bound for each in plan.ranges)
        spec = CopySpec(self.source.staging_spec(), self.table.staging_spec(), bounds)
        units = packed(plan.units, cores=self.cores)
        work = _copying(units, spec)
        return joined(map(decode_parsed, self._asked(lambda session: run_tasks(session, len(units), work))))

    def _asked(self, ask: Callable[[SparkSession], _T]) -> _T:
        return asked_of(self.session, ask, f"copies records to {self.table.identifier}")


def asked_of(
    session: Callable[[OnWaiting], SparkSession], ask: Callable[[SparkSession], _T], what: str
) -> _T:
    """`what`: what the Spark job does, for people."""
    started = session(warn)
    try:
        return ask(started)
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise Unreachable(
            f"the Spark job that {what} failed: {cause_of(str(error))}. Nothing was committed, and no position moved; run the window again"
        ) from error


def _copying(units: Sequence[Sequence[ReadUnit]], spec: CopySpec) -> Callable[[int], bytes]:
    # A function inside of a function: Spark pickles it whole, and its imports run on the worker, from the shipped zip.
    def work(number: int) -> bytes:
        from datetime import UTC, datetime
        from uuid import uuid4

        from headrace.pipeline.typed.codec import encode_parsed
        from headrace.pipeline.windows.copy_task import copy_units

        return encode_parsed(
            copy_units(units[number], spec, now=lambda: datetime.now(UTC), fresh=lambda: uuid4().hex)
        )

    return work
