"""Runs tasks on Spark, and translates Spark's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.pipeline.errors import HeadraceError, Unreachable
from headrace.pipeline.lake.spark.spark_job import cause_of, is_of_spark, run_tasks
from headrace.pipeline.lake.spark.waiting import warn
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.ports.tasks import Job, Tasks, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkTasks(Tasks):
    session: Callable[[OnWaiting], SparkSession]
    """Starts Spark, or joins it, for the first job: most looks find nothing to do."""
    cores: int

    def run(self, count: int, work: Work, job: Job) -> list[bytes]:
        if not count:
            return []
        session = self.session(warn)
        with failing_as(job):
            return run_tasks(session, count, work)


@contextmanager
def failing_as(job: Job) -> Iterator[None]:
    """Errors of Spark in the `with` block are raised as `Unreachable`, in the words of `job`."""
    with spark_errors(lambda text: Unreachable(f"{job.name} failed: {cause_of(text)}. {job.safe}")):
        yield


@contextmanager
def spark_errors(meaning: Callable[[str], HeadraceError]) -> Iterator[None]:
    """Errors of Spark in the `with` block are raised as the error that `meaning` makes of their text."""
    try:
        yield
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise meaning(str(error)) from error
