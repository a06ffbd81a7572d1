"""Spark's part of a table of the latest rows: it brings the keys of the wave's rows and of the table's rows together.

    keys of all rows, without the other columns ─► all of one key in one task, sorted ─► the rows that leave ─► copies

Payloads never pass through Spark: a second job copies the files that lose rows, each task some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.spark.engine_zip import ship
from headrace.pipeline.lake.spark.tasks import SparkTasks, failing_as
from headrace.pipeline.lake.spark.waiting import warn
from headrace.pipeline.lake.staging.stage_codec import decode_all
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from headrace.pipeline.ports.tasks import Job, Now, Work, packed
from headrace.pipeline.settings.rules.latest import Deletion
from headrace.pipeline.typed.account import one_report
from headrace.pipeline.typed.latest.decision import decision_of
from headrace.pipeline.typed.latest.rule import FRESH, ORDER
from headrace.pipeline.typed.latest.table import IcebergLatest
from headrace.pipeline.typed.latest.task import KeySpec
from headrace.pipeline.typed.latest_plan import Departures, KeyPart, LatestLook, Losing
from headrace.pipeline.typed.ports import LatestRows
from headrace.pipeline.typed.values import Parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Task = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
_KEYS = "key binary, epoch bigint, sort_key string, fresh boolean, deletes boolean, record_key string, file int, row bigint"
_LEAVING = "file int, row bigint, why tinyint"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLatest(LatestRows):
    session: Callable[[OnWaiting], SparkSession]
    table: IcebergLatest
    deletion: Deletion | None
    tasks: int

    def look(self, staged: Sequence[StagedFile]) -> LatestLook:
        return self.table.look(staged)

    def decide(self, parts: Sequence[KeyPart]) -> Departures:
        session = self.session(warn)
        packs = packed(parts, cores=self.tasks)
        spec = KeySpec(self.table.staging_spec(), self._schema(), self.table.key, self.deletion)
        with failing_as(self._job):
            ship(session)
            numbers = session.range(0, len(packs), 1, max(1, len(packs)))
            keys = numbers.mapInArrow(_reading(packs, spec), _KEYS)
            order = [keys[name] for name in ORDER]
            # Of one record that comes again, the table's row counts.
            together = keys.repartition(len(packs), "key").sortWithinPartitions(*order, keys[FRESH].desc())
            leaving_rows: Any = together.mapInArrow(_deciding(), _LEAVING).toArrow()
        return decision_of(leaving_rows, parts)

    def copy(self, losing: Sequence[Losing], streams: Sequence[StreamId], mark: ShardKey) -> Parsed:
        packs = packed(losing, cores=self.tasks)
        work = _copying(packs, self.table.staging_spec(), self._schema(), tuple(streams), mark)
        reports = SparkTasks(self.session, self.tasks).run(len(packs), work, self._job)
        return one_report(decode_all(reports, Parsed))

    def _schema(self) -> pa.Schema:
        # All columns, also those that others have added to the table.
        return schema_to_pyarrow(self.table.open().schema())

    @property
    def _job(self) -> Job:
        """What people are told where a job fails."""
        return Job(
            f"the Spark job that brings new rows into {self.table.identifier}",
            "Nothing was committed, and no position moved; the next run tries again",
        )


# Functions inside of functions: Spark pickles such a function whole, with the values that it uses, and its imports run
# on the worker, from the shipped zip.


def _reading(packs: Sequence[Sequence[KeyPart]], spec: KeySpec) -> _Task:
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.typed.latest.task import key_rows

        for batch in numbers:
            tasks: list[Any] = batch.column(0).to_pylist()
            for number in tasks:
                yield from key_rows(packs[number], spec)

    return read


def _deciding() -> _Task:
    def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.typed.latest.rule import leaving

        return leaving(batches)

    return decide


def _copying(
    packs: Sequence[Sequence[Losing]],
    spec: StagingSpec,
    schema: pa.Schema,
    streams: Sequence[StreamId],
    mark: ShardKey,
) -> Work:
    def work(number: int, now: Now) -> bytes:
        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.typed.latest.task import copy_rest

        return encode(copy_rest(packs[number], spec=spec, schema=schema, streams=streams, mark=mark, now=now))

    return work
