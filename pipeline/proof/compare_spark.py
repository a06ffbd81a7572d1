"""Compares tables row by row on Spark: Python tasks read the rows, Spark brings those of one bucket together, and
Python tasks compare them.

Parquet -> Python task: rows with buckets -> Spark's shuffle -> Python task: patterns of one bucket
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.pipeline.lake.spark.engine_zip import ship
from headrace.pipeline.lake.spark.tasks import failing_as
from headrace.pipeline.lake.spark.waiting import warn
from headrace.pipeline.lake.staging.stage_codec import decode_all
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work
from headrace.pipeline.proof.compare_task import SideFile, SideSpec
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.patterns import Comparing, Pattern
from headrace.pipeline.proof.ports import OtherSide
from headrace.pipeline.proof.spans import FileCount, ShardSpans

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_DDL = "bucket int, place int, span int, side int, key string, digest bigint"
_ANSWER = "answer binary"
_JOB = Job("the Spark job that compares rows", "Nothing is proved, and nothing was changed; run it again")
_MOST_TASKS = 1_000
"""Tasks that read. Each of them gets the names of all files and the borders of all ranges."""

Read = Callable[[int], Iterator["pa.RecordBatch"]]
"""The rows that the task with this number reads, with their buckets."""
Judge = Callable[["pa.Table"], bytes]
"""What a judging task finds out about the rows of one bucket, encoded."""
Shuffle = Callable[[int, Read, Judge], list[bytes]]
"""Runs so many reading tasks, and then a judging task for each bucket. The answers come in any order."""


def on_spark(session: Callable[[OnWaiting], SparkSession]) -> Shuffle:
    """A shuffle that runs in a Spark session. The session is started when it is first needed."""

    def run(tasks: int, read: Read, judge: Judge) -> list[bytes]:
        started = session(warn)
        with failing_as(_JOB):
            return _shuffled(started, tasks, read, judge)

    return run


def _shuffled(session: SparkSession, tasks: int, read: Read, judge: Judge) -> list[bytes]:
    ship(session)
    rows = session.range(0, tasks, 1, tasks).mapInArrow(_reading(read), _DDL)
    # By buckets of whole ranges: all rows of a range meet in one task, and no task has more than a few ranges.
    judged = rows.groupBy("bucket").applyInArrow(_judging(judge), _ANSWER).toArrow()
    answers: list[Any] = judged.column(0).to_pylist()
    return answers


class ShufflingComparer:
    """Compares rows of several tables by a Spark shuffle, after which all rows of a range are in one task."""

    def __init__(
        self, shuffle: Shuffle, specs: Sequence[Callable[[], SideSpec]], *, most_tasks: int = _MOST_TASKS
    ) -> None:
        """`specs`: how the files of each side are read."""
        self._shuffle = shuffle
        self._most_tasks = most_tasks
        self._specs = specs

    def __call__(self, sides: Sequence[Sequence[str]], scope: Comparing) -> tuple[Pattern, ...]:
        files = [
            SideFile(number, path, spec)
            for number, (paths, spec_of) in enumerate(zip(sides, self._specs, strict=True))
            if paths
            for spec in (spec_of(),)
            for path in paths
        ]
        if not files:
            return ()
        # A task for each file, up to a number: the plan that goes to each of them names all files.
        tasks = min(len(files), self._most_tasks)
        answers = self._shuffle(tasks, _reader(files, tasks, scope), _judge(len(sides)))
        return tuple(pattern for answer in decode_all(answers, tuple[Pattern, ...]) for pattern in answer)


def other_side(
    name: str,
    list_files: Callable[[], tuple[str, ...]],
    spec: Callable[[], StagingSpec],
    rows: ConsumerRows,
    *,
    tasks: Tasks,
    shuffle: Shuffle,
) -> OtherSide:
    """The other consumer's output: plain files, or the data files of an Iceberg table. `spec`: how the files of
    the lake table are read.
    """
    from headrace.pipeline.proof.shadow.other_rows import check_columns

    paths = list_files()
    # The first file only, before Spark starts: the others are told of one by one by what counts their rows.
    for path in paths[:1]:
        check_columns(path, spec(), rows.columns)
    has_payloads = rows.columns.data is not None

    def count(spans: Sequence[ShardSpans]) -> tuple[FileCount, ...]:
        answers = tasks.run(len(paths), _counter(paths, spec(), rows, tuple(spans)), _JOB)
        counts = (count for answer in decode_all(answers, tuple[FileCount, ...]) for count in answer)
        return tuple(sorted(counts, key=lambda count: count.path))

    def here() -> SideSpec:
        return SideSpec(spec(), payload=has_payloads)

    def there() -> SideSpec:
        return SideSpec(spec(), other=rows)

    return OtherSide(
        name=name,
        has_payloads=has_payloads,
        paths=paths,
        count=count,
        compare=ShufflingComparer(shuffle, [here, there]),
    )


# Functions inside of functions: Spark pickles such a function whole, with the values that it uses, and its imports run
# on the worker, from the shipped zip.


def _reader(files: Sequence[SideFile], tasks: int, scope: Comparing) -> Read:
    def read(number: int) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.proof.compare_task import marked_rows

        for file in files[number::tasks]:
            yield from marked_rows(file, scope)

    return read


def _counter(
    paths: Sequence[str], spec: StagingSpec, rows: ConsumerRows, spans: Sequence[ShardSpans]
) -> Work:
    def work(number: int, _now: Now) -> bytes:
        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.proof.compare_task import count_other

        return encode((count_other(paths[number], spec, rows, spans),))

    return work


def _judge(sides: int) -> Judge:
    def judge(rows: pa.Table) -> bytes:
        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.proof.compare_task import patterns_of

        return encode(patterns_of(rows, sides))

    return judge


def _reading(read: Read) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            tasks: list[Any] = batch.column(0).to_pylist()
            for number in tasks:
                yield from read(number)

    return rows


def _judging(judge: Judge) -> Callable[[pa.Table], pa.Table]:
    def told(rows: pa.Table) -> pa.Table:
        import pyarrow as pa

        return pa.table({"answer": pa.array([judge(rows)], pa.binary())})

    return told
