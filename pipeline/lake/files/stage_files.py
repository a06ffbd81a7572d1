"""The data files of one task: one file for each arrival day of its rows, with the rows of many shards.

Rows are written while the task reads on, so its memory doesn't grow with what it reads. Each file name has a new uuid,
so that a task that Spark runs twice overwrites nothing. Files that no manifest names are orphans, and orphan removal
deletes them by their age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.files.binary_views import filtered
from headrace.pipeline.lake.files.day_file import ROW_GROUP, DayFile
from headrace.pipeline.lake.files.stage_place import StagePlace, place_of
from headrace.pipeline.ports.staging import StagingSpec

_OPEN_FILES = 16
"""The most files that are open at once. Each open file on S3 holds a buffer of 10 MiB; a backlog of a year has 365
days."""

_DAY_ZERO = date(1970, 1, 1)
_ARRIVAL = "arrival_ts"
_MICROSECONDS_A_DAY = 24 * 3600 * 1_000_000


class CantWrite(Exception):
    """A file of the task couldn't be written. Then the task stages nothing, because its shards share files."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class TaskFiles:
    """The files that one task of a wave writes. Any number of threads may add rows."""

    def __init__(
        self,
        spec: StagingSpec,
        *,
        now: Callable[[], datetime],
        fresh: Callable[[], str],
        place: StagePlace | None = None,
    ) -> None:
        """The files that a task writes.

        `place`: where the files go, with all their columns. Without it the columns are those of the first rows.
        """
        self._spec = spec
        self._now = now
        self._fresh = fresh
        self._lock = Lock()
        self._place = place
        self._open: dict[date, DayFile] = {}
        """The open files, in the order in which they last got rows."""
        self._all: list[DayFile] = []
        self._staged: list[StagedFile] = []
        self._broken: CantWrite | None = None

    def add(self, key: ShardKey, rows: pa.RecordBatch) -> None:
        """Add a page of rows, after all earlier pages of its shard. Raises CantWrite; after that, each call in
        any thread raises it.
        """
        # Writing happens within the lock: a thread that reads faster than the files are written waits here, so that
        # its pages don't pile up in memory.
        with self._lock, self._noting():
            if self._place is None:
                self._place = place_of(self._spec, rows.schema)
            for day, day_rows in _by_day(rows):
                self._file(day, self._place).add(key, day_rows)
            while sum(file.waiting_bytes for file in self._open.values()) >= ROW_GROUP:
                # The largest first: row groups of a few rows would make footers and manifests grow.
                max(self._open.values(), key=lambda file: file.waiting_bytes).write_group()

    def finish(self) -> tuple[StagedFile, ...]:
        """Close all files and return them, by day. Raises CantWrite."""
        with self._lock, self._noting():
            for day in sorted(self._open):
                self._staged.append(self._open.pop(day).finish(self._now()))
            return tuple(sorted(self._staged, key=lambda file: file.partition))

    def discard(self) -> None:
        """Delete all files of this task, as far as possible."""
        with self._lock:
            for file in self._all:
                file.discard()

    def _file(self, day: date, place: StagePlace) -> DayFile:
        file = self._open.pop(day, None)
        if file is None:
            if len(self._open) >= _OPEN_FILES:
                # The file that got no rows for longest. If its day comes again, it gets another file.
                oldest = next(iter(self._open))
                # Closed for good, as a Parquet file can't be gone on with.
                self._staged.append(self._open.pop(oldest).finish(self._now()))
            file = DayFile(place, day, self._fresh())
            self._all.append(file)
        self._open[day] = file
        return file

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Turns an error into CantWrite, and remembers it."""
        if self._broken is not None:
            raise self._broken
        try:
            yield
        except Exception as error:
            # Any error: a file may then hold a part of a page, and must not land.
            self._broken = CantWrite(error)
            raise self._broken from error


def _by_day(rows: pa.RecordBatch) -> Iterator[tuple[date, pa.RecordBatch]]:
    """The rows of each arrival day (UTC), by day and within a day in their order."""
    bounds: Any = pc.min_max(rows[_ARRIVAL].cast(pa.int64())).as_py()
    first, last = (bounds[name] // _MICROSECONDS_A_DAY for name in ("min", "max"))
    if first == last:
        yield _DAY_ZERO + timedelta(days=first), rows
        return
    days = pc.floor_temporal(rows[_ARRIVAL], unit="day").cast(pa.date32()).cast(pa.int32())
    distinct: list[Any] = pc.unique(days).to_pylist()
    for number in sorted(distinct):
        yield (
            _DAY_ZERO + timedelta(days=number),
            filtered(rows, pc.equal(days, pa.scalar(number, pa.int32()))),
        )
