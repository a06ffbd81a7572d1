"""Parsing on Spark: a first job finds out which rows are there, a second one reads, parses and writes them.

    Python task: Parquet ─► rows ─► Spark: columns ─► Python task: rows ─► Parquet ─► a report

Python tasks read and write the files, as everywhere in Headrace: the JVM needs no file system and no jar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.pipeline.lake.files.not_null import has_required
from headrace.pipeline.lake.spark.engine_zip import ship
from headrace.pipeline.lake.spark.tasks import SparkTasks, failing_as
from headrace.pipeline.lake.spark.waiting import warn
from headrace.pipeline.lake.staging.stage_codec import decode_all, encode
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from headrace.pipeline.ports.tasks import Job, packed
from headrace.pipeline.settings.choices import ColumnsFrom, Compression, ParseFormat
from headrace.pipeline.typed.account import one_report
from headrace.pipeline.typed.duplicates_plan import Comparison
from headrace.pipeline.typed.formats.decoder import Decoder
from headrace.pipeline.typed.formats.inflate import Inflation
from headrace.pipeline.typed.json.codec import decode_facts
from headrace.pipeline.typed.json.column_types import has_not_null, spark_of, struct_of_fields
from headrace.pipeline.typed.json.columns import Struct
from headrace.pipeline.typed.json.decode import JsonDecoder
from headrace.pipeline.typed.json.facts import OBJECT, Fact
from headrace.pipeline.typed.json.fit import Judge
from headrace.pipeline.typed.json.growth import grow
from headrace.pipeline.typed.json.task_facts import Looking
from headrace.pipeline.typed.ports import Surveyor
from headrace.pipeline.typed.spark.duplicates import keys_type, rows_beside_earlier, rows_type
from headrace.pipeline.typed.spark.filter_frame import reads_json
from headrace.pipeline.typed.spark.frames import Frames, arrow_schema, columns_of
from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped
from headrace.pipeline.typed.tasks.duplicates import key_columns, small_columns
from headrace.pipeline.typed.tasks.read import rows_ddl
from headrace.pipeline.typed.tasks.surveying import survey_by
from headrace.pipeline.typed.tasks.write import WriteSpec, own_columns
from headrace.pipeline.typed.values import Parsed, Survey, SurveyOrder, WavePlan, Wishes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")
_Task = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
_REPORT = "report binary"
_TASKS_A_CORE = 4
"""Tasks for each of Spark's cores: a file that takes longer than the others then delays the wave less."""

_ROWS_A_TASK = 200_000
_BYTES_A_TASK = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkParser(Surveyor):
    session: Callable[[OnWaiting], SparkSession]
    """Called for the first look: most looks at the positions find nothing to parse."""
    frames: Frames
    source: IcebergTable
    table: IcebergTyped
    quarantine: IcebergQuarantine
    tasks: int

    def check(self) -> None:
        """Check the settings, and whether the table can get the columns that they state. Needs no Spark."""
        self.frames.check()
        may_have_more = self.frames.settings.columns is not ColumnsFrom.GIVEN
        self.table.check_columns(self.frames.stated_columns(), may_have_more=may_have_more)

    def survey(self, order: SurveyOrder) -> Survey:
        if not order.files:
            return Survey()
        return survey_by(self.numbered, order, self.source.staging_spec(), self.job)

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        return self.asked(lambda session: self._parse(session, plan, wishes, comparison))

    def _parse(
        self, session: SparkSession, plan: WavePlan, wishes: Wishes, comparison: Comparison | None
    ) -> tuple[Parsed, int]:
        ship(session)
        if self.frames.settings.columns is not ColumnsFrom.GIVEN:
            return self._by_payloads(session, plan, wishes, comparison)
        if decoder := self.frames.decoder:
            columns, number = self.table.with_columns(self.frames.decoded_columns(decoder))
            spec = self._spec(columns, wishes)
            return self._decoded(session, plan, spec, decoder, comparison), number
        fields = self.frames.fields()
        # Before the table gets columns: a callable that doesn't fit its schema adds none.
        rows = self._rows(session, plan, fields)
        columns, number = self.table.with_columns(columns_of(fields))
        if not plan.units:
            return Parsed(), number
        return self._written(session, rows, plan, self._spec(columns, wishes), comparison), number

    def _rows(self, session: SparkSession, plan: WavePlan, fields: Sequence[Mapping[str, Any]]) -> DataFrame:
        # A callable gives no payloads back, and a row of it that lacks a value may go to quarantine.
        read = partial(self._read, session, plan, with_payload=has_not_null(fields))
        return self.frames.rows(read, fields, has_malformed=bool(plan.malformed))

    def _by_payloads(
        self,
        session: SparkSession,
        plan: WavePlan,
        wishes: Wishes,
        comparison: Comparison | None,
    ) -> tuple[Parsed, int]:
        """JSON payloads that make columns. The columns are committed before the rows: what a killed run has added, the
        next one finds."""
        freezes = self.frames.settings.columns is ColumnsFrom.INFERRED
        limits = self.frames.limits
        self.table.with_columns(columns_of(self.frames.fields()), may_have_more=True)
        before = self.table.own_columns()
        facts: Counter[Fact] = Counter()
        if plan.units and not (freezes and before.are_frozen):
            facts = self.facts(session, plan, before.columns)
        own, columns, number = self.table.grown(
            lambda present: grow(present, facts, limits), freezes=freezes and OBJECT in facts
        )
        if not plan.units:
            return Parsed(), number
        judge = Judge(own.columns, limits, is_whole=not freezes)
        decoder = JsonDecoder(tuple(own.spark), self.frames.settings.most_values, judge)
        return self._decoded(session, plan, self._spec(columns, wishes), decoder, comparison), number

    def infer(self, plan: WavePlan) -> Struct:
        return self.asked(lambda session: self._infer(session, plan))

    def _infer(self, session: SparkSession, plan: WavePlan) -> Struct:
        ship(session)
        columns = struct_of_fields(self.frames.fields())
        if self.table.exists():
            own = self.table.own_columns().columns
            required = (columns.required - own.fields.keys()) | own.required
            columns = Struct({**columns.fields, **own.fields}, required)
        facts = self.facts(session, plan, columns) if plan.units else {}
        return grow(columns, facts, self.frames.limits)

    def facts(self, session: SparkSession, plan: WavePlan, columns: Struct) -> Counter[Fact]:
        """What the payloads of the wave have that these columns lack; payloads that the filter leaves out don't
        count.
        """
        looking = _looking(self._compared_with(columns))
        if self.frames.settings.filter:
            taken = self.frames.taken(self.frames.judged(self._read(session, plan, None)))
            reports = taken.mapInArrow(looking, _REPORT)
        else:
            tasks, reading = self._reading(plan, None)
            reports = _numbers(session, tasks).mapInArrow(_both(reading, looking), _REPORT)
        told: list[Any] = reports.toArrow().column(0).to_pylist()
        return sum(map(decode_facts, told), Counter())

    def _compared_with(self, columns: Struct) -> Looking:
        fields: tuple[Mapping[str, Any], ...] = tuple(spark_of(columns)["fields"])
        settings = self.frames.settings
        return Looking(fields, arrow_schema(columns_of(fields)), self.frames.limits, settings.most_values)

    def _written(
        self,
        session: SparkSession,
        rows: DataFrame,
        plan: WavePlan,
        spec: WriteSpec,
        comparison: Comparison | None,
    ) -> Parsed:
        judging = _judging(spec.schema)
        if comparison is None:
            return _reported(rows.mapInArrow(_both(judging, _writing(spec)), _REPORT))
        # Before rows are compared: one that goes to quarantine leaves no other one out.
        rows = rows.mapInArrow(judging, rows.schema) if has_required(own_columns(spec.schema)) else rows
        return self._compared(session, rows, plan, spec, comparison)

    def _compared(
        self,
        session: SparkSession,
        rows: DataFrame,
        plan: WavePlan,
        spec: WriteSpec,
        comparison: Comparison,
    ) -> Parsed:
        """Rows of the wave that the same event hasn't made before."""
        by = self.frames.settings.key_columns
        parts = packed([each.path for each in comparison.files], cores=self.tasks)
        columns = key_columns(spec.schema, by)
        earlier = _numbers(session, len(parts)).mapInArrow(
            _reading_keys(parts, spec.table, columns, comparison), keys_type(columns)
        )
        together = rows_beside_earlier(
            rows, earlier, by, tasks=_tasks_for(plan, comparison, cores=self.tasks)
        )
        marking = _marking(len(by), comparison.within)
        return _reported(together.mapInArrow(_both(marking, _writing(spec)), _REPORT))

    def _decoded(
        self,
        session: SparkSession,
        plan: WavePlan,
        spec: WriteSpec,
        decoder: Decoder,
        comparison: Comparison | None,
    ) -> Parsed:
        """Without a filter one Python task does all for its rows, and none passes through the JVM."""
        if not plan.units:
            return Parsed()
        if comparison is not None:
            columns, filtered = small_columns(spec.schema), bool(self.frames.settings.filter)
            records = self.frames.judged(self._read(session, plan, None))
            # Judged before rows are compared: one that goes to quarantine leaves no other one out.
            made = _both(_decoding(columns, decoder, spec), _judging(spec.schema))
            rows = records.mapInArrow(made, rows_type(columns, filtered=filtered))
            return self._compared(session, rows, plan, spec, comparison)
        writing = _writing(spec, decoder)
        if self.frames.settings.filter:
            records = self.frames.judged(self._read(session, plan, None))
            return _reported(records.mapInArrow(writing, _REPORT))
        tasks, reading = self._reading(plan, None)
        return _reported(_numbers(session, tasks).mapInArrow(_both(reading, writing), _REPORT))

    def _spec(self, columns: pa.Schema, wishes: Wishes) -> WriteSpec:
        return WriteSpec(
            self.table.staging_spec(),
            columns,
            self.quarantine.staging_spec(),
            self.quarantine.file_schema(),
            wishes.streams,
            self.frames.settings.version,
        )

    def _read(
        self,
        session: SparkSession,
        plan: WavePlan,
        malformed: bool | None,  # noqa: FBT001 - see Reading
        *,
        with_payload: bool = False,
    ) -> DataFrame:
        tasks, reading = self._reading(plan, malformed, with_payload=with_payload)
        return _numbers(session, tasks).mapInArrow(reading, rows_ddl(with_payload=with_payload))

    def _reading(
        self,
        plan: WavePlan,
        malformed: bool | None,  # noqa: FBT001 - see Reading
        *,
        with_payload: bool = False,
    ) -> tuple[int, _Task]:
        """How many tasks read the rows of the wave, and their work."""
        units = packed(plan.units, cores=self.tasks)
        return len(units), _reading(
            units,
            plan,
            self.source.staging_spec(),
            malformed,
            self._inflation,
            json=reads_json(self.frames.settings),
            with_payload=with_payload,
        )

    @property
    def _inflation(self) -> Inflation | None:
        inflation = self.frames.inflation
        is_redrive = self.source is self.quarantine
        if inflation is not None and is_redrive and self.frames.settings.format is ParseFormat.CALLABLE:
            # A callable gets inflated payloads, and sets records aside with bytes of its own choice.
            return replace(inflation, compression=Compression.AUTO)
        return inflation

    def asked(self, ask: Callable[[SparkSession], _T]) -> _T:
        session = self.session(warn)
        with failing_as(self.job):
            return ask(session)

    @property
    def job(self) -> Job:
        """What people are told where a Spark job of the parser fails: what the job was doing, and what the
        failure means.
        """
        return Job(
            f"the Spark job that parses records for {self.table.identifier}",
            "Nothing was committed, and no position moved; the next run tries again",
        )

    @property
    def numbered(self) -> SparkTasks:
        """Runs Spark tasks that each get a number and no rows."""
        return SparkTasks(self.session, self.tasks)


def _tasks_for(plan: WavePlan, comparison: Comparison, *, cores: int) -> int:
    """How many tasks write where duplicates are left out: each writes a file for each day."""
    rows = plan.rows + comparison.rows
    size = sum(each.bytes for each in plan.ranges)
    return min(cores * _TASKS_A_CORE, 1 + max(rows // _ROWS_A_TASK, size // _BYTES_A_TASK))


def _numbers(session: SparkSession, tasks: int) -> DataFrame:
    """A row for each task, with its number."""
    return session.range(0, tasks, 1, max(1, tasks))


def _reported(reports: DataFrame) -> Parsed:
    told: list[Any] = reports.toArrow().column(0).to_pylist()
    return one_report(decode_all(told, Parsed))


# Functions inside of functions: Spark pickles such a function whole, with the values that it uses, and its imports run
# on the worker, from the shipped zip.


def _reading(
    units: Sequence[Sequence[Any]],
    plan: WavePlan,
    spec: StagingSpec,
    malformed: bool | None,  # noqa: FBT001 - see Reading
    inflation: Inflation | None,
    *,
    json: bool,
    with_payload: bool,
) -> _Task:
    bounds = tuple(each.bound for each in plan.ranges)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.typed.tasks.read import read_units

        for batch in numbers:
            tasks: list[Any] = batch.column(0).to_pylist()
            for number in tasks:
                yield from read_units(
                    units[number],
                    bounds,
                    spec,
                    malformed=malformed,
                    inflation=inflation,
                    json=json,
                    with_payload=with_payload,
                )

    return read


def _looking(looking: Looking) -> _Task:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from headrace.pipeline.typed.json.codec import encode_facts
        from headrace.pipeline.typed.json.task_facts import facts_in

        report = encode_facts(facts_in(batches, looking))
        yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], names=["report"])

    return look


def _reading_keys(
    parts: Sequence[Sequence[str]], spec: StagingSpec, columns: pa.Schema, comparison: Comparison
) -> _Task:
    since, until = comparison.since, comparison.until

    def look(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.typed.tasks.duplicates import earlier_rows

        for batch in numbers:
            tasks: list[Any] = batch.column(0).to_pylist()
            for number in tasks:
                yield from earlier_rows(parts[number], spec, columns, since=since, until=until)

    return look


def _marking(keys: int, within: timedelta) -> _Task:
    def mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.typed.tasks.duplicates import marked

        return marked(batches, keys=keys, within=within)

    return mark


def _decoding(columns: pa.Schema, decoder: Decoder, spec: WriteSpec) -> _Task:
    """The function that decodes payloads on Spark's workers.

    `columns`: those of the typed table in types that Spark takes.
    """

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.lake.files.not_null import has_required
        from headrace.pipeline.typed.tasks.decode import rows_of_payloads
        from headrace.pipeline.typed.tasks.write import own_columns

        return rows_of_payloads(
            batches, decoder, columns, keeps_payloads=has_required(own_columns(spec.schema))
        )

    return decode


def _judging(columns: pa.Schema) -> _Task:
    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.lake.files.not_null import has_required, with_nulls_aside
        from headrace.pipeline.typed.tasks.write import own_columns

        own = own_columns(columns)
        return with_nulls_aside(batches, own) if has_required(own) else iter(batches)

    return judge


def _both(first: _Task, then: _Task) -> _Task:
    def both(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return then(first(batches))

    return both


def _writing(spec: WriteSpec, decoder: Decoder | None = None) -> _Task:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from datetime import UTC, datetime
        from uuid import uuid4

        import pyarrow as pa

        from headrace.pipeline.lake.files.not_null import has_required, with_nulls_aside
        from headrace.pipeline.typed.tasks.decode import rows_of_payloads
        from headrace.pipeline.typed.tasks.write import own_columns, write_rows

        rows: Iterable[pa.RecordBatch] = batches
        own = own_columns(spec.schema)
        if decoder:
            rows = rows_of_payloads(batches, decoder, spec.schema, keeps_payloads=has_required(own))
            rows = with_nulls_aside(rows, own) if has_required(own) else rows
        report = write_rows(rows, spec, now=lambda: datetime.now(UTC), fresh=lambda: uuid4().hex)
        yield pa.RecordBatch.from_arrays([pa.array([encode(report)], pa.binary())], names=["report"])

    return write
