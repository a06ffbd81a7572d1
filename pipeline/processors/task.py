"""The work of a Spark task that runs processors, as plain functions: it reads the records of its shards, lets a process
of the processor work on each shard, and writes the rows that count. No commit names the files yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import sleep
from typing import Any

import pyarrow as pa

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.files.stage_files import CantWrite, TaskFiles
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.processors.columns import RowColumns
from headrace.pipeline.processors.starting import folder_of, process_of
from headrace.pipeline.processors.stopping import check_stop, noting_signals
from headrace.pipeline.processors.turn import ShardTurn
from headrace.pipeline.processors.values import (
    ChildSpec,
    Delivered,
    Row,
    ShardWork,
    TurnReport,
    TurnReports,
    TurnRules,
)
from headrace.pipeline.settings.rules.schema import ROW_NUMBER
from headrace.pipeline.typed.tasks.read import bounds_by_shard, parts_of, source_place
from headrace.pipeline.typed.tasks.write import WriteSpec, own_columns, task_files
from headrace.pipeline.typed.values import Bound, ReadUnit

_RECORD = ("stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number", "arrival_ts")
_KEY = "key"


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What a Spark task has to know to run a processor. It can be pickled, and holds no credentials."""

    source: StagingSpec
    """The lake table."""
    target: WriteSpec
    child: ChildSpec
    rules: TurnRules


@dataclass(frozen=True, slots=True)
class ShardInput:
    """A shard of a wave, and the row groups that have its records."""

    work: ShardWork
    units: tuple[ReadUnit, ...]
    """Row groups that may have rows of the shard."""


def process_shards(
    shards: Sequence[ShardInput],
    bounds: Sequence[Bound],
    spec: ProcessSpec,
    *,
    now: Callable[[], datetime],
    fresh: Callable[[], str],
    pause: Callable[[float], None] = sleep,
) -> TurnReports:
    """Let the processor work on these shards, one after the other, and write those of its rows that count.

    `bounds`: those of all shards of the wave, by which the rows of each row group were counted.
    """
    writing = _Writing(
        task_files(spec.target.table, spec.target.schema, now, fresh),
        task_files(spec.target.aside, spec.target.aside_schema, now, fresh),
        RowColumns(column for column in own_columns(spec.target.schema) if column.name != ROW_NUMBER),
        spec.target.version,
    )
    try:
        with noting_signals(), folder_of(spec.child) as folder:
            turns = tuple(
                _turn(shard, records_of(shard, bounds, spec.source), spec, writing, folder, pause)
                for shard in shards
            )
            # A signal that came while the last shard worked has interrupted nobody. Its turn is
            # complete, but the run has been told to stop, and nothing of the wave counts then.
            check_stop()
        return TurnReports(turns, writing.rows.finish(), writing.aside.finish())
    except BaseException as error:
        writing.rows.discard()
        writing.aside.discard()
        if isinstance(error, CantWrite):
            raise error.error from None
        raise


def records_of(shard: ShardInput, bounds: Sequence[Bound], source: StagingSpec) -> pa.Table:
    """The records of a shard in the wave, in their order."""
    place, wanted = source_place(source), bounds_by_shard(bounds)
    parts = [
        part for unit in shard.units for key, part in parts_of(unit, place, wanted) if key == shard.work.key
    ]
    if not parts:
        return pa.table({})
    return pa.concat_tables(parts).sort_by(_KEY).combine_chunks()


def _turn(
    shard: ShardInput,
    records: pa.Table,
    spec: ProcessSpec,
    writing: _Writing,
    folder: str,
    pause: Callable[[float], None],
) -> TurnReport:
    writing.begin(shard.work)
    turn = ShardTurn(
        work=shard.work,
        records=_delivered(records),
        rules=spec.rules,
        start=lambda: process_of(spec.child, folder, grace=spec.rules.grace),
        keep=writing.add,
        check=writing.columns.rows,
        pause=pause,
    )
    done = turn.run()
    writing.set_aside(_reasons(turn, done, records), records)
    return done


def _reasons(turn: ShardTurn, done: TurnReport, records: pa.Table) -> dict[int, str]:
    """The records that are in quarantine afterwards, each with the reason."""
    reasons = {place: why for place, why in turn.aside.items() if place < done.taken}
    # Records behind the mark come again with the next wave, and would be in quarantine twice. In a redrive they are
    # there already, and stay.
    if turn.work.before.redrive and done.taken < records.num_rows:
        before: list[str | None] = records["reason"].to_pylist()
        reasons |= {
            place: turn.aside.get(place, before[place] or "") for place in range(done.taken, len(before))
        }
    return reasons


def _delivered(records: pa.Table) -> list[Delivered]:
    if not records.num_rows:
        return []
    arrivals: Any = records["arrival_ts"].cast(pa.int64())
    numbers: list[Any] = records["sequence_number"].to_pylist()
    columns = (
        map(int, numbers),
        (sub or 0 for sub in records["sub_sequence_number"].to_pylist()),
        (micros // 1000 for micros in arrivals.to_pylist()),
        (key or "" for key in records["partition_key"].to_pylist()),
        (data or b"" for data in records["data"].to_pylist()),
    )
    return [Delivered(*values) for values in zip(*columns, strict=True)]


# --- the files ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writing:
    """The rows of the task's shards, one shard after the other."""

    rows: TaskFiles
    aside: TaskFiles
    columns: RowColumns
    version: str
    _key: ShardKey | None = None
    _last: tuple[int, int] | None = None
    _first: int = 0
    """The row number of a record's first row."""
    _number: int = 0
    _shards: list[ShardKey] = field(default_factory=list)

    def begin(self, work: ShardWork) -> None:
        # Rows of a redrive may belong to records that have rows of a wave, or of an earlier redrive.
        self._key, self._last, self._first = work.key, None, work.before.redrive << 32
        self._number = self._first
        if work.after is not None and work.after.sequence is not None:
            # Rows of the shard's end may belong to this record, which has rows of the wave before: at most all of them.
            self._last, self._number = (work.after.sequence, work.after.sub), work.before.rows

    def add(self, record: Delivered, rows: Sequence[Row]) -> None:
        if self._key is None:
            raise ValueError("the rows of a processor belong to a shard")
        if record.place != self._last:
            self._last, self._number = record.place, self._first
        count = len(rows)
        arrival = datetime.fromtimestamp(record.arrival_ms / 1000, UTC)
        stream = self._key.stream
        numbers = range(self._number, self._number + count)
        self._number += count
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([stream.name] * count, pa.string()),
                pa.array([stream.epoch] * count, pa.int64()),
                pa.array([self._key.shard_id] * count, pa.string()),
                pa.array([str(record.sequence)] * count, pa.string()),
                pa.array([record.sub] * count, pa.int64()),
                pa.array([arrival] * count, pa.timestamp("us", tz="UTC")),
                pa.array(numbers, pa.int64()),
                *self.columns.arrays(rows),
            ],
            names=[*_RECORD, ROW_NUMBER, *self.columns.names],
        )
        self.rows.add(self._key, batch)

    def set_aside(self, reasons: dict[int, str], records: pa.Table) -> None:
        """Write these records for the quarantine table, each with its reason."""
        if not reasons or self._key is None:
            return
        places = sorted(reasons)
        few = records.take(pa.array(places, pa.int64()))
        names = [*_RECORD, "partition_key", "explicit_hash_key", "data", "decode_error"]
        columns = [few[name] for name in names]
        whole = pa.table(
            [
                *columns,
                pa.array([reasons[place][:500] for place in places], pa.string()),
                pa.array([self.version] * len(places), pa.string()),
            ],
            names=[*names, "reason", "version"],
        )
        for batch in whole.combine_chunks().to_batches():
            self.aside.add(self._key, batch)
