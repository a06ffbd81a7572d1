"""The work of the Spark tasks that write the rows of a typed table, as a plain function: rows that were parsed become
files of the typed table, the others files of the quarantine table. No commit names any of them yet.

A row comes as four columns: `record` (where it comes from, and its number in the wave), `row` (the columns of the typed
table), `reason` (why it can't be parsed; null where it can) and `data` (the payload, where there is a reason). Where
duplicates are left out, `is_duplicate` tells which rows are counted and not written; where the target has a filter, so
does `is_left_out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.files.not_null import fitted
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.files.stage_files import CantWrite, TaskFiles
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.settings.rules.schema import RECORD_KEY
from headrace.pipeline.typed.columns.time_range import check_times
from headrace.pipeline.typed.values import Parsed, ShardCount

_SHARD = ["stream", "stream_epoch", "shard_id"]
_RECORD = (*_SHARD, "sequence_number", "sub_sequence_number", "arrival_ts")
_KEPT = ("partition_key", "explicit_hash_key", "decode_error")
IS_DUPLICATE = "is_duplicate"
IS_LEFT_OUT = "is_left_out"
_LEFT_OUT = {IS_DUPLICATE: 2, IS_LEFT_OUT: 3}
"""The columns that tell of rows which are counted and not written, and the place of their count."""
_MOST_REASON = 500
"""Characters of a reason."""
_MOST_REASONS = 1_000
"""Different reasons that a task counts."""
_TOLD_REASONS = 20
"""Reasons that a task reports."""


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """What a Spark task has to know to write rows. It can be pickled, and holds no credentials."""

    table: StagingSpec
    schema: pa.Schema
    """The columns of the typed table's files, with their field ids."""
    aside: StagingSpec
    aside_schema: pa.Schema
    """The schema of the quarantine table's files."""
    streams: tuple[StreamId, ...]
    version: str


def write_rows(
    batches: Iterable[pa.RecordBatch],
    spec: WriteSpec,
    *,
    now: Callable[[], datetime],
    fresh: Callable[[], str],
) -> Parsed:
    writing = _Writing(
        spec,
        task_files(spec.table, spec.schema, now, fresh),
        task_files(spec.aside, spec.aside_schema, now, fresh),
        {(stream.name, stream.epoch): stream for stream in spec.streams},
    )
    try:
        for batch in batches:
            writing.add(batch)
        return writing.finish()
    # Also where Spark interrupts the task: its files belong to no report, and without this they
    # would stay as orphans until upkeep's days are over.
    except BaseException as error:
        writing.discard()
        if isinstance(error, CantWrite):
            raise error.error from None
        raise


def own_columns(columns: pa.Schema) -> list[pa.Field[Any]]:
    """Those columns of a typed table's files that the parser makes."""
    return [column for column in columns if column.name not in (*_RECORD, SORT_KEY, RECORD_KEY)]


def task_files(
    spec: StagingSpec, schema: pa.Schema, now: Callable[[], datetime], fresh: Callable[[], str]
) -> TaskFiles:
    """The files of one table that a task writes."""
    files, root = file_system(spec)
    return TaskFiles(spec, now=now, fresh=fresh, place=StagePlace(files, root, spec, schema))


@dataclass(slots=True)
class _Writing:
    spec: WriteSpec
    parsed: TaskFiles
    aside: TaskFiles
    streams: Mapping[tuple[str, int], StreamId]
    counts: dict[ShardKey, list[int]] = field(default_factory=dict)
    """Rows that were parsed, set aside, and left out as duplicates or by the filter."""
    numbers: list[Any] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Rows that were set aside, by the reason."""

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if batch["record"].null_count:
            raise WrongShape(
                "a row came back without the column `record`, which tells where it comes from. Nothing was committed; the callable has to "
                "leave this column as it is"
            )
        # Each row has a number in its wave. A callable that returns a row twice is found by it
        # without a shuffle over all rows.
        self.numbers.append(pc.struct_field(batch["record"], ["number"]))
        for column, place in _LEFT_OUT.items():
            if column in batch.schema.names:
                batch = self._without_left_out(batch, column, place)
        record = {name: pc.struct_field(batch["record"], [name]) for name in (*_RECORD, *_KEPT)}
        is_good: Any = pc.is_null(batch["reason"])
        provenance = [record[name] for name in _RECORD]
        good = batch.filter(is_good) if batch["reason"].null_count < batch.num_rows else batch
        self._write(self._parsed(good), self.parsed, 0)
        reason = pc.utf8_slice_codeunits(batch["reason"], 0, _MOST_REASON)
        version = pa.array([self.spec.version] * batch.num_rows)
        bad = pa.RecordBatch.from_arrays(
            [*provenance, *(record[name] for name in _KEPT), batch["data"], reason, version],
            names=[*_RECORD, *_KEPT, "data", "reason", "version"],
        )
        bad = bad.filter(pc.invert(is_good))
        self._write(bad, self.aside, 1)
        self._count_reasons(bad["reason"])

    def _count_reasons(self, reasons: pa.Array[Any]) -> None:
        counts: Any = pc.value_counts(reasons)
        for counted in counts.to_pylist():
            self.reasons[counted["values"]] += counted["counts"]
        if len(self.reasons) > _MOST_REASONS:
            # Where each row has a reason of its own, none of them is worth the memory.
            self.reasons = Counter(dict(self.reasons.most_common(_TOLD_REASONS)))

    def _parsed(self, good: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the typed table."""
        own = own_columns(self.spec.schema)
        columns = [fitted(pc.struct_field(good["row"], [column.name]), column.type) for column in own]
        check_times([column.name for column in own], columns)
        provenance = [pc.struct_field(good["record"], [name]) for name in _RECORD]
        names = [*_RECORD, *(column.name for column in own)]
        if RECORD_KEY in self.spec.schema.names:
            # A table of the latest rows.
            provenance.append(pc.struct_field(good["record"], ["partition_key"]))
            names.insert(len(_RECORD), RECORD_KEY)
        return pa.RecordBatch.from_arrays([*provenance, *columns], names=names)

    def _without_left_out(self, batch: pa.RecordBatch, column: str, place: int) -> pa.RecordBatch:
        left_out = batch.filter(batch[column])
        shards = [pc.struct_field(left_out["record"], [name]) for name in _SHARD]
        for key, rows in by_shard(pa.RecordBatch.from_arrays(shards, names=_SHARD), self.streams):
            self._count(key, rows, place)
        return batch.filter(pc.invert(batch[column])) if left_out.num_rows else batch

    def _count(self, key: ShardKey, rows: pa.RecordBatch, place: int) -> None:
        self.counts.setdefault(key, [0, 0, 0, 0])[place] += rows.num_rows

    def _write(self, rows: pa.RecordBatch, files: TaskFiles, place: int) -> None:
        for key, rows_of_shard in by_shard(rows, self.streams):
            self._count(key, rows_of_shard, place)
            files.add(key, rows_of_shard)

    def finish(self) -> Parsed:
        files, aside = self.parsed.finish(), self.aside.finish()
        counts = tuple(ShardCount(key, *numbers) for key, numbers in sorted(self.counts.items()))
        reasons = tuple(self.reasons.most_common(_TOLD_REASONS))
        return Parsed(files, aside, counts, tuple(_runs(self.numbers)), reasons=reasons)

    def discard(self) -> None:
        self.parsed.discard()
        self.aside.discard()


def by_shard(
    rows: pa.RecordBatch, streams: Mapping[tuple[str, int], StreamId]
) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
    """The rows, one batch for each shard. `streams`: by name and epoch."""
    if not rows.num_rows:
        return
    table = pa.Table.from_batches([rows])
    shards = table.group_by(_SHARD, use_threads=False).aggregate([]).to_pylist()
    for shard in shards:
        stream = streams.get((shard["stream"], shard["stream_epoch"]))
        # A callable may have changed the column `record`, and its rows would land under another
        # stream.
        if stream is None:
            raise WrongShape(
                f"a row came back with the stream {shard['stream']!r}, of which the wave has none. Nothing was committed"
            )
        is_of_shard: Any = pa.scalar(value=True)
        for name in _SHARD:
            is_of_shard = pc.and_kleene(is_of_shard, pc.equal(rows[name], pa.scalar(shard[name])))
        rows_of_shard = rows if len(shards) == 1 else rows.filter(is_of_shard)
        yield ShardKey(stream, shard["shard_id"]), rows_of_shard


def _runs(numbers: list[Any]) -> Iterator[tuple[int, int]]:
    """The numbers as runs of neighbours. A number that came twice begins a run of its own."""
    if not numbers:
        return
    ordered = np.sort(np.concatenate([array.to_numpy() for array in numbers]))
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0]) != 1)
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield int(ordered[start]), int(end - start)
