"""A Spark job whose tasks get no rows: each task gets its number and returns a few bytes. Rows never pass through
the JVM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.pipeline.lake.spark.engine_zip import ship
from headrace.pipeline.ports.tasks import Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_COLUMN = "answer"
_CANCELLED = re.compile(r"\[(?:OPERATION_CANCELED|SPARK_JOB_CANCELLED)\]")
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
_JAVA_ERROR = re.compile(r"Exception: ([^.\n]+)")


def run_tasks(session: SparkSession, count: int, work: Work) -> list[bytes]:
    """Run `count` tasks, and return the bytes that they returned, in any order. The tasks are numbered from 0."""
    ship(session)
    lines = session.range(0, count, 1, count).mapInArrow(_answering(work), f"{_COLUMN} binary").toArrow()
    answers: list[Any] = lines.column(0).to_pylist()
    return answers


def is_of_spark(error: Exception) -> bool:
    """Whether an exception is one of Spark's. Spark Connect raises PySparkException and sometimes plain gRPC
    errors; classic Spark also raises py4j's. They are recognized by the name of their package, so that no client
    library has to be installed only for its exceptions.
    """
    return type(error).__module__.partition(".")[0] in {"pyspark", "grpc", "py4j"}


def cause_of(text: str) -> str:
    """The cause in the text of a Spark error: the last line of the Python worker's traceback, else the innermost
    Java error, else the first line.
    """
    if _CANCELLED.search(text):
        return "the job was cancelled"
    if errors := _PYTHON_ERROR.findall(text) or _JAVA_ERROR.findall(text):
        return str(errors[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "Spark gave no reason")


def _answering(
    work: Work,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def answers(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from datetime import UTC, datetime

        import pyarrow as pa

        from headrace.pipeline.encoding.plain_arrow import one_item

        for batch in numbers:
            tasks: list[Any] = batch.column(0).to_pylist()
            for number in tasks:
                yield pa.RecordBatch.from_arrays(
                    [one_item(work(number, lambda: datetime.now(UTC)))], names=[_COLUMN]
                )

    return answers
