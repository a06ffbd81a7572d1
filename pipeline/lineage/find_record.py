"""Which data file has a record now, and which snapshot added that file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import ArrowScan

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.plain_read import landed_files


@dataclass(frozen=True, slots=True)
class FoundRecord:
    path: str
    snapshot: int | None
    """The snapshot that added the file: that of the landing, or a later one of a compaction."""
    content: pa.Table
    """The rows with this number in the file, one for each user record."""

    @property
    def rows(self) -> int:
        return self.content.num_rows

    @property
    def arrival(self) -> datetime | None:
        first: datetime | None = self.content["arrival_ts"][0].as_py()
        return first

    def texts(self, column: str) -> list[str]:
        """The distinct values of a text column in the rows of the record."""
        return sorted({text for text in self.content[column].to_pylist() if text is not None})


def find_record(where: IcebergTable, landed: Range, sequence: int) -> Iterator[FoundRecord]:
    """The files that have a record of the range, in the lake table, a typed table or its quarantine table. Only
    files that may have the record, by the bounds in the table's metadata, are read.
    """
    with asking(f"the table {where.identifier}"):
        table = where.open()
        condition = _filter(landed, sequence)
        tasks = list(table.scan(row_filter=condition).plan_files())
        added = {file.path: file.snapshot for file in landed_files(where)} if tasks else {}
        reader = ArrowScan(table.metadata, table.io, table.schema(), condition)
        for task in tasks:
            rows = reader.to_table([task])
            if rows.num_rows:
                path = task.file.file_path
                yield FoundRecord(path, added.get(path), rows)


def _filter(landed: Range, sequence: int) -> BooleanExpression:
    key = landed.key
    condition = (
        f"stream = '{key.stream.name}' and stream_epoch = {key.stream.epoch} and shard_id = '{key.shard_id}' "
        f"and sequence_number = '{sequence}'"
    )
    if landed.first_arrival is not None and landed.last_arrival is not None:
        # With the times of arrival, only files of the right days are looked at. Kinesis's times are approximate.
        since, until = landed.first_arrival - APPROXIMATE, landed.last_arrival + APPROXIMATE
        condition += f" and arrival_ts >= '{since.isoformat()}' and arrival_ts <= '{until.isoformat()}'"
    return parse(condition)
