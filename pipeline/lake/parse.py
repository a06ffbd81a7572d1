"""Parsing on Spark: one job looks which rows are there, a second one reads, parses and writes them.

    Python task: Parquet ─► rows ─► Spark: columns ─► Python task: rows ─► Parquet ─► a report

Files are read and written by Python tasks, as everywhere in Headrace: the JVM needs no file system and no jar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.core.parse_account import joined
from pipeline.core.parse_values import Parsed, Piece, SurveyOrder, WavePlan, Wishes
from pipeline.errors import Unreachable
from pipeline.lake.iceberg import IcebergTable
from pipeline.lake.parse_frame import Frames, columns_of, malformed
from pipeline.lake.parse_read import ROWS_DDL
from pipeline.lake.parse_write import WriteSpec
from pipeline.lake.parsed_table import IcebergQuarantine, IcebergTyped
from pipeline.lake.ship import ship
from pipeline.lake.spark_job import cause_of, is_of_spark, run_tasks
from pipeline.lake.stage_codec import decode_parsed, decode_pieces
from pipeline.lake.waiting import warn
from pipeline.lake_ports import OnWaiting, Parser, StagingSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")
_TASKS_A_CORE = 4
"""Tasks for each of Spark's cores: a file that takes longer than the others then delays the wave less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkParser(Parser):
    session: Callable[[OnWaiting], SparkSession]
    """Called for the first look: most looks at the positions find nothing to parse."""
    frames: Frames
    source: IcebergTable
    table: IcebergTyped
    quarantine: IcebergQuarantine
    tasks: int

    def survey(self, order: SurveyOrder) -> tuple[Piece, ...]:
        if not order.files:
            return ()
        spec = self.source.staging_spec()
        return self._asked(lambda session: survey_on(session, order, spec, cores=self.tasks))

    def parse(self, plan: WavePlan, wishes: Wishes) -> tuple[Parsed, int]:
        return self._asked(lambda session: self._parse(session, plan, wishes))

    def _parse(self, session: SparkSession, plan: WavePlan, wishes: Wishes) -> tuple[Parsed, int]:
        schema = self.frames.schema(session)
        ship(session)
        # Before the table gets columns: a callable that doesn't fit its schema adds none.
        rows = self.frames.rows(self._read(session, plan, is_malformed=False).drop("decode_error"), schema)
        if plan.malformed:
            rows = rows.unionByName(malformed(self._read(session, plan, is_malformed=True), schema))
        columns, number = self.table.with_columns(columns_of(schema))
        if not plan.units:
            return Parsed(), number
        spec = WriteSpec(
            self.table.staging_spec(),
            columns,
            self.quarantine.staging_spec(),
            self.quarantine.file_schema(),
            wishes.streams,
            self.frames.settings.version,
        )
        reports = rows.mapInArrow(_writing(spec), "report binary").toArrow()
        told: list[Any] = reports.column(0).to_pylist()
        return joined(map(decode_parsed, told)), number

    def _read(self, session: SparkSession, plan: WavePlan, *, is_malformed: bool) -> DataFrame:
        units = packed(plan.units, cores=self.tasks)
        reading = _reading(units, plan, self.source.staging_spec(), is_malformed=is_malformed)
        return session.range(0, len(units), 1, max(1, len(units))).mapInArrow(reading, ROWS_DDL)

    def _asked(self, ask: Callable[[SparkSession], _T]) -> _T:
        session = self.session(warn)
        try:
            return ask(session)
        except Exception as error:
            if not is_of_spark(error):
                raise
            raise Unreachable(
                f"the Spark job that parses records for {self.table.identifier} failed: {cause_of(str(error))}. Nothing was committed, and no "
                "position moved; the next run tries again"
            ) from error


def survey_on(
    session: SparkSession, order: SurveyOrder, spec: StagingSpec, *, cores: int
) -> tuple[Piece, ...]:
    """`spec`: that of the lake table."""
    files = packed(order.files, cores=cores)
    answers = run_tasks(session, len(files), _surveying(files, order, spec))
    return tuple(piece for each in answers for piece in decode_pieces(each))


def packed(items: Sequence[_T], *, cores: int) -> tuple[tuple[_T, ...], ...]:
    """What each task gets: neighbours together, so that a task reads few files."""
    count = min(len(items), cores * _TASKS_A_CORE)
    return tuple(tuple(items[len(items) * n // count : len(items) * (n + 1) // count]) for n in range(count))


# Functions inside of functions: Spark pickles such a function whole, with the values that it uses, and its imports run on the worker, from
# the shipped zip.


def _surveying(
    files: Sequence[Sequence[str]], order: SurveyOrder, spec: StagingSpec
) -> Callable[[int], bytes]:
    def work(number: int) -> bytes:
        from pipeline.lake.parse_read import survey
        from pipeline.lake.stage_codec import encode_pieces

        return encode_pieces(survey(order, files[number], spec))

    return work


def _reading(
    units: Sequence[Sequence[Any]], plan: WavePlan, spec: StagingSpec, *, is_malformed: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    bounds = tuple(each.bound for each in plan.ranges)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pipeline.lake.parse_read import read_units

        for batch in numbers:
            tasks: list[Any] = batch.column(0).to_pylist()
            for number in tasks:
                yield from read_units(units[number], bounds, spec, malformed=is_malformed)

    return read


def _writing(spec: WriteSpec) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from datetime import UTC, datetime
        from uuid import uuid4

        import pyarrow as pa

        from pipeline.lake.parse_write import write_rows
        from pipeline.lake.stage_codec import encode_parsed

        report = write_rows(batches, spec, now=lambda: datetime.now(UTC), fresh=lambda: uuid4().hex)
        yield pa.RecordBatch.from_arrays([pa.array([encode_parsed(report)], pa.binary())], names=["report"])

    return write
