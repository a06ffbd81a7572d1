"""A lake table with JSON payloads, and a typed table of it. What Spark's tasks do is done in this process, and in place of from_json a few lines
of Python make the rows."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import LongType, NestedField, StringType

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.account import one_report
from headrace.pipeline.typed.check_wave import ParseChecking
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.duplicates_plan import Comparison
from headrace.pipeline.typed.ports import ParsePorts, Parser, Thinned
from headrace.pipeline.typed.quarantine.redrive import Redriving
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped
from headrace.pipeline.typed.tasks.duplicates import earlier_rows, key_columns, key_names, marked
from headrace.pipeline.typed.tasks.exchange import copy_unselected
from headrace.pipeline.typed.tasks.read import read_units, survey
from headrace.pipeline.typed.tasks.write import IS_LEFT_OUT, WriteSpec, write_rows
from headrace.pipeline.typed.values import (
    Bound,
    Parsed,
    SourceFile,
    Survey,
    SurveyOrder,
    WaveLimits,
    WavePlan,
    Wishes,
)
from headrace.pipeline.typed.wave import Parsing
from tests.lake.samples import NOON, ORIGIN, StandingClock, a_key
from tests.lake.tables import IcebergLake
from tests.lake.written import write_files

A, B = a_key(0), a_key(1)
SETTINGS = ParseSettings(name="orders", table="lake.orders", schema="id BIGINT, name STRING")
COLUMNS = [NestedField(1, "id", LongType()), NestedField(2, "name", StringType())]
BAD = b"{"

_Duty = TypeVar("_Duty", Parsing, Redriving)


class Killed(Exception):
    """The process ends here."""


def good(number: int) -> bytes:
    return json.dumps({"id": number, "name": f"n{number}"}).encode()


@dataclass(kw_only=True)
class InProcess(Parser):
    """`keeps`: which rows come back, by their number in the wave; `again`: which come back twice. `source`: what it reads in the place of
    the lake table."""

    bed: "Bed"
    source: Callable[[], IcebergTable] | None = None
    keeps: Callable[[int], bool] = lambda _: True
    again: Callable[[int], bool] = lambda _: False
    leaves_out: frozenset[int] = frozenset()
    """Sequence numbers that don't come back. The number of a row in its wave can follow random file names, a sequence number can't."""
    filtered: frozenset[int] = frozenset()
    """Sequence numbers of the records that the target's filter leaves out."""
    reason: str = "bad"
    fixes: Mapping[bytes, bytes] = field(default_factory=dict)
    """Payloads that this parser reads as others: a parser that was corrected."""
    surveyed: list[SurveyOrder] = field(default_factory=list)
    compared: list[Comparison] = field(default_factory=list)

    def survey(self, order: SurveyOrder) -> Survey:
        self.surveyed.append(order)
        try:
            return survey(order, order.files, self._source())
        except FileNotFoundError as gone:
            # As Spark tells of it.
            raise Unreachable(str(gone)) from gone

    def _source(self) -> StagingSpec:
        return (self.source or self.bed.lake.handle)().staging_spec()

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        table = (self.source or self.bed.lake.handle)()
        return copy_unselected(
            [each.path for each in files],
            selected,
            spec=table.staging_spec(),
            schema=schema_to_pyarrow(table.open().schema()),
            streams=streams,
            now=self.bed.clock.now,
        )

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        table, aside = self.bed.typed(), self.bed.quarantine()
        columns, number = table.with_columns(COLUMNS)
        spec = WriteSpec(
            table.staging_spec(),
            columns,
            aside.staging_spec(),
            aside.file_schema(),
            wishes.streams,
            self.bed.settings.version,
        )
        bounds = [each.bound for each in plan.ranges]
        source = self._source()
        batches: Iterator[pa.RecordBatch] = chain.from_iterable(
            self._rows(read_units(plan.units, bounds, source, malformed=malformed))
            for malformed in (False, True)
        )
        if comparison is not None:
            self.compared.append(comparison)
            batches = iter(self._marked(list(batches), spec, comparison))
        report = write_rows(batches, spec, now=self.bed.clock.now, fresh=lambda: uuid4().hex)
        return one_report([report]), number

    def _marked(
        self, batches: Sequence[pa.RecordBatch], spec: WriteSpec, comparison: Comparison
    ) -> Iterator[pa.RecordBatch]:
        """In the place of Spark, which brings the rows of a key together."""
        by = self.bed.settings.key_columns
        columns = key_columns(spec.schema, by)
        paths = [each.path for each in comparison.files]
        looked = earlier_rows(paths, spec.table, columns, since=comparison.since, until=comparison.until)
        earlier = [{"fresh": False, **row} for batch in looked for row in batch.to_pylist()]
        rows = [row for batch in batches for row in batch.to_pylist()]
        names = key_names(len(by))
        for row in rows:
            found = row["row"] or {}
            row |= {name: found.get(column) for name, column in zip(names, by, strict=True)}
            row |= {"arrival": row["record"]["arrival_ts"], "fresh": True}

        def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
            keys = [(row[name] is not None, row[name] or 0) for name in names]
            number = int(row["record"]["sequence_number"]) if row["fresh"] else 0
            return (keys, row["fresh"], row["arrival"], number)

        kinds = [pa.field(name, each.type) for name, each in zip((*names, "arrival"), columns, strict=True)]
        schema = pa.schema([*batches[0].schema, *kinds, pa.field("fresh", pa.bool_())])
        together = sorted([*earlier, *rows], key=order)
        # Few at once, so that the rows of a key come in several batches.
        few = (together[start : start + 3] for start in range(0, len(together), 3))
        yield from marked(
            (pa.RecordBatch.from_pylist(part, schema) for part in few),
            keys=len(names),
            within=comparison.within,
        )

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                row
                for row in batch.to_pylist()
                if self.keeps(row["record"]["number"])
                and int(row["record"]["sequence_number"]) not in self.leaves_out
                for _ in range(2 if self.again(row["record"]["number"]) else 1)
            ]
            out = [int(row["record"]["sequence_number"]) in self.filtered for row in rows]
            made = [(None, None) if is_out else self._row(row) for row, is_out in zip(rows, out, strict=True)]
            row_type = pa.struct([("id", pa.int64()), ("name", pa.string())])
            yield pa.record_batch(
                [
                    pa.array([row["record"] for row in rows], batch.schema.field("record").type),
                    pa.array([row for row, _ in made], row_type),
                    pa.array([reason for _, reason in made], pa.string()),
                    pa.array(
                        [
                            row["data"] if reason else None
                            for row, (_, reason) in zip(rows, made, strict=True)
                        ],
                        pa.binary(),
                    ),
                    pa.array(out, pa.bool_()),
                ],
                names=["record", "row", "reason", "data", IS_LEFT_OUT],
            )

    def _row(self, row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
        if row["decode_error"]:
            return None, row["decode_error"]
        try:
            return json.loads(self.fixes.get(row["data"], row["data"])), None
        except ValueError:
            return None, self.reason


def with_ports(duty: _Duty, **ports: Any) -> _Duty:
    """The duty with other ports."""
    return replace(duty, ports=replace(duty.ports, **ports))


class Bed:
    """The tables, and the waves that fill them."""

    dropped_as = ""
    """Why rows may be in neither table; empty where none may be missing."""
    retention: timedelta | None = None
    """Of the lake table."""

    def __init__(self, folder: Path) -> None:
        self.lake = IcebergLake(folder)
        self.lake.iceberg.commit(ORIGIN)
        self.settings = SETTINGS
        self.parser = InProcess(bed=self)
        self._runs = count(1)

    @property
    def clock(self) -> StandingClock:
        return self.lake.clock

    def typed(self) -> IcebergTyped:
        return IcebergTyped(self.lake.properties, self.settings.table, state=self.state, clock=self.clock)

    def quarantine(self) -> IcebergQuarantine:
        name = self.settings.quarantine
        return IcebergQuarantine(self.lake.properties, name, state=self.state, clock=self.clock)

    @property
    def state(self) -> str:
        return str(self.lake.folder / "state")

    def land(
        self,
        key: ShardKey,
        payloads: Mapping[int, bytes],
        *,
        ended: Sequence[str] | None = None,
        parents: Sequence[str] = (),
        malformed: Sequence[int] = (),
        subs: int = 1,
        arrival: datetime = NOON,
    ) -> tuple[StagedFile, ...]:
        """One landing of a shard, at the earliest when its records arrive. `payloads`: sequence number -> payload. `subs`: rows of each record."""
        was, self.clock.at = self.clock.at, max(self.clock.at, arrival)
        table = self.lake.handle()
        before = table.load().positions.of(key)
        rows = [(number, sub) for number in sorted(payloads) for sub in range(subs)]
        files = _written(self, key, rows, payloads, malformed, arrival) if rows else ()
        last = max(payloads, default=before.sequence if before else None)
        upto = Position(
            last,
            subs - 1 if payloads else 0,
            ended=ended is not None,
            children=tuple(ended or ()),
            arrival=arrival,
        )
        reasons = tuple(ParentReason(each, ParentIs.ENDED) for each in parents)
        landed = Range(
            Kind.LANDED,
            key,
            before,
            upto,
            run="run",
            claim="run/1",
            rows=len(rows),
            first_arrival=arrival if rows else None,
            last_arrival=arrival + timedelta(milliseconds=len(rows)) if rows else None,
            parents=reasons,
        )
        committed = table.commit(Proposal((landed,), files))
        assert not committed.landing.refused
        self.clock.at = was
        return files

    def keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that are to land, with the partition keys that they should have."""
        return batch

    def ports(self) -> ParsePorts:
        typed, aside = self.typed(), self.quarantine()
        return ParsePorts(
            source=IcebergSource(self.lake.handle()),
            table=typed,
            quarantine=aside,
            parser=self.parser,
            dropped_as=self.dropped_as,
            set_aside=IcebergSource(aside),
            redriver=replace(self.parser, source=self.quarantine),
            typed=Thinned(table=IcebergSource(typed), leaver=replace(self.parser, source=self.typed)),
            lineage=IcebergLineage(typed),
        )

    def checking(self, ports: ParsePorts) -> ParseChecking:
        return ParseChecking(
            name=self.settings.name,
            ports=ports,
            landings=IcebergLineage(self.lake.handle()),
            retention=self.retention,
            clock=self.clock,
        )

    def parsing(self, *, limits: WaveLimits | None = None, kill: str = "") -> Parsing:
        run = f"run-{next(self._runs)}"

        def on_step(arrow: str) -> None:
            if arrow == kill:
                raise Killed(arrow)

        ports = self.ports()
        return Parsing(
            settings=self.settings,
            ports=ports,
            settling=Settling(table=ports.table, quarantine=ports.quarantine, run=run),
            limits=limits or WaveLimits(1_000_000, 2**30),
            clock=self.clock,
            run=run,
            deduplicating=self.deduplicating(self.typed()),
            checking=self.checking(ports),
            on_step=on_step,
        )

    def deduplicating(self, table: IcebergTyped) -> Deduplicating | None:
        within = self.settings.unique.within
        if within is None:
            return None
        return Deduplicating(table=IcebergSource(table), name=self.settings.table, within=within)

    def redriving(self, *, limits: WaveLimits | None = None, kill: str = "") -> Redriving:
        parsing = self.parsing(kill=kill)
        return Redriving(
            settings=self.settings,
            ports=parsing.ports,
            settling=parsing.settling,
            limits=limits or WaveLimits(1_000_000, 2**30),
            clock=self.clock,
            run=parsing.run,
            deduplicating=parsing.deduplicating,
            on_step=parsing.on_step,
        )

    def catch_up(self, **how: Any) -> int:
        """Waves until there is nothing left. Returns how many had something to do."""
        for waves in range(100):
            if self.parsing(**how).wave().snapshot is None:
                return waves
        raise AssertionError("the waves never end")

    def parsed(self) -> list[tuple[str, int, int]]:
        """Shard, sequence number and sub-sequence number of each row of the typed table."""
        return _rows(self.typed())

    def set_aside(self) -> list[tuple[str, int, int]]:
        return _rows(self.quarantine())

    def landed(self) -> list[tuple[str, int, int]]:
        return _rows(self.lake.handle())

    def check(self) -> None:
        """I38: each row of the lake table is in exactly one of both tables."""
        assert sorted(self.parsed() + self.set_aside()) == self.landed()
        assert self.parsing().settling.is_settled()


def _rows(table: Any) -> list[tuple[str, int, int]]:
    found = read.rows(table, ("shard_id", "sequence_number", "sub_sequence_number")).to_pylist()
    return sorted((r["shard_id"], int(r["sequence_number"]), r["sub_sequence_number"]) for r in found)


def _written(
    bed: Bed,
    key: ShardKey,
    rows: Sequence[tuple[int, int]],
    payloads: Mapping[int, bytes],
    malformed: Sequence[int],
    arrival: datetime,
) -> tuple[StagedFile, ...]:
    batch = batch_of(key, rows, payloads, malformed=malformed, arrival=arrival)
    return staged_together(bed, {key: bed.keyed(batch)})


def staged_together(bed: Bed, batches: Mapping[ShardKey, pa.RecordBatch]) -> tuple[StagedFile, ...]:
    files = write_files(
        {key: [batch] for key, batch in batches.items()},
        bed.lake.iceberg.staging_spec(),
        now=bed.clock.now,
        fresh=lambda: uuid4().hex,
    )
    return tuple(replace(file, staged_at=bed.clock.at) for file in files)


def batch_of(
    key: ShardKey,
    rows: Sequence[tuple[int, int]],
    payloads: Mapping[int, bytes],
    *,
    malformed: Sequence[int] = (),
    arrival: datetime = NOON,
) -> pa.RecordBatch:
    columns: dict[str, pa.Array[Any]] = {
        "stream": pa.array([key.stream.name] * len(rows)),
        "stream_epoch": pa.array([key.stream.epoch] * len(rows), pa.int64()),
        "shard_id": pa.array([key.shard_id] * len(rows)),
        "sequence_number": pa.array([str(number) for number, _ in rows]),
        "sub_sequence_number": pa.array([sub for _, sub in rows], pa.int64()),
        "partition_key": pa.array(["pk"] * len(rows)),
        "explicit_hash_key": pa.array([None] * len(rows), pa.string()),
        "arrival_ts": pa.array(
            [arrival + timedelta(milliseconds=n) for n in range(len(rows))], pa.timestamp("us", tz="UTC")
        ),
        "data": pa.array([payloads[number] for number, _ in rows], pa.binary()),
        "decode_error": pa.array(
            ["the aggregate is cut off" if number in malformed else None for number, _ in rows],
            pa.string(),
        ),
    }
    return pa.record_batch(columns)
