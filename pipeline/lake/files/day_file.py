"""One data file of a task, with the rows of one arrival day. It grows by row groups while the task still reads.

    pages of many shards ──> waiting ── 64 MB ──> sorted by shard ──> one row group ──> file ... ──> footer

A row group holds its shards one after the other, and each shard's rows in the order of their sequence numbers. The next
row group begins with the first shard again, so the file as a whole isn't sorted; compaction sorts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.files.sort_key import SORT_KEY, with_sort_key
from headrace.pipeline.lake.files.stage_place import StagePlace

ROW_GROUP = 64 * 1024 * 1024
"""The bytes in memory at which a row group is closed, over all shards and days of the task. A row group for each shard
made the footers, and so the manifests, six times larger.
"""
_DICTIONARY = ["stream", "stream_epoch", "shard_id", "sub_sequence_number", "partition_key"]
_STATISTICS = [
    "stream",
    "stream_epoch",
    "shard_id",
    "sequence_number",
    "sub_sequence_number",
    "arrival_ts",
    SORT_KEY,
    "version",
    "record_key",
]
"""Columns with minimum and maximum in the footer: those of which a table keeps bounds (`version` is in quarantine
tables, `record_key` in those of the latest rows). pyiceberg warns of each that lacks them. Not data and partition keys: a record of 1 MiB would be in the footer
twice."""


class DayFile:
    """A data file for records of one day. Only one thread at a time may use it. The file is created with its
    first row group.
    """

    def __init__(self, place: StagePlace, day: date, name: str) -> None:
        self.day = day
        self.name = f"arrival_ts_day={day.isoformat()}/{name}.parquet"
        self.begun = False
        """Whether the file may exist."""
        self.waiting_bytes = 0
        self._place = place
        self._waiting: list[tuple[ShardKey, pa.RecordBatch]] = []
        self._shards: set[ShardKey] = set()
        self._rows = 0
        self._footers: list[pq.FileMetaData] = []
        self._out: Any = None
        self._writer: Any = None

    def add(self, key: ShardKey, rows: pa.RecordBatch) -> None:
        """Keep rows for the next row group. They come after all rows of their shard that were added before."""
        self._waiting.append((key, rows))
        self.waiting_bytes += rows.nbytes

    def write_group(self) -> None:
        """Write the waiting rows as one row group, and forget them."""
        # Python's sort is stable: the pages of a shard keep the order in which they were read (I12).
        batches = sorted(self._waiting, key=lambda batch: batch[0])
        self._waiting, self.waiting_bytes = [], 0
        if not batches:
            return
        schema = self._place.schema
        group = with_sort_key(pa.Table.from_batches([rows for _, rows in batches]))
        self.write_sorted(group.select(schema.names).cast(schema), row_group=len(group))
        self._shards.update(key for key, _ in batches)

    def write_sorted(self, rows: pa.Table, *, row_group: int) -> None:
        """Write rows that have all columns and are sorted already. `row_group`: its number of rows."""
        with _first_error():
            self._opened().write_table(rows, row_group_size=row_group)
        self._rows += len(rows)

    def finish(self, now: datetime) -> StagedFile:
        self.write_group()
        with _first_error():
            self._writer.close()
            size = self._out.tell()
            self._out.close()
        self._writer = self._out = None
        return StagedFile(
            path=self._place.uri(self.name),
            shards=frozenset(self._shards),
            rows=self._rows,
            size=size,
            footer=_footer_bytes(self._footers[0]),
            partition=self.day.isoformat(),
            staged_at=now.astimezone(UTC),
        )

    def discard(self) -> None:
        """Delete the file as far as possible, after an error somewhere in the task: that error is the one to report."""
        self._waiting, self.waiting_bytes = [], 0
        # Both may fail again. The writer first, because an open writer ends its file when Python deletes it.
        for opened in (self._writer, self._out):
            with suppress(OSError, RuntimeError, pa.ArrowException):
                if opened is not None:
                    opened.close()
        if self.begun:
            # A file that can't be deleted stays as an orphan.
            with suppress(OSError):
                self._place.files.delete_file(self._place.path(self.name))

    def _opened(self) -> Any:
        if self._writer is None:
            # Before the file exists, so that a file that was begun is deleted on an error too.
            self.begun = True
            self._out = self._place.create(self.name)
            own = dict(
                self._place.spec.field_ids
            )  # a compaction also writes the columns that others have added
            options: dict[str, Any] = {
                "compression": self._place.spec.compression,
                "use_dictionary": _DICTIONARY,
                "write_statistics": [
                    *_STATISTICS,
                    *(
                        path
                        for column in self._place.schema
                        if column.name not in own
                        for path in _parts_of(column.name, column.type)
                    ),
                ],
                # Arrow's own schema in the footer would only make it larger; Iceberg reads Parquet's.
                "store_schema": False,
                "metadata_collector": self._footers,
            }
            self._writer = pq.ParquetWriter(self._out, self._place.schema, **options)
        return self._writer


def _parts_of(path: str, kind: pa.DataType) -> Iterator[str]:
    """What Parquet calls the columns that a column of Arrow becomes: one for each part of a struct, a list or a map."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _parts_of(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _parts_of(f"{path}.key_value.key", kind.key_type)
        yield from _parts_of(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _parts_of(f"{path}.list.element", kind.value_type)
    else:
        yield path


@contextmanager
def _first_error() -> Iterator[None]:
    """After an error of the disk, pyarrow asks for the footer of the file that it couldn't end, and raises a
    RuntimeError about that instead. The error of the disk is the one to report."""
    try:
        yield
    except RuntimeError as second:
        if isinstance(second.__context__, OSError):
            raise second.__context__ from None
        raise


def _footer_bytes(metadata: pq.FileMetaData) -> bytes:
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    return sink.getvalue().to_pybytes()
