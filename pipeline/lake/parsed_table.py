"""A typed table and its quarantine table on Iceberg: they land as the lake table does, and have other columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.types import BinaryType, IcebergType, LongType, StringType, TimestamptzType

from pipeline.core.batch import StagedFile
from pipeline.core.lineage import LedgerPage
from pipeline.core.stream import ShardKey
from pipeline.errors import Transient, WrongShape
from pipeline.lake.catalog import asking
from pipeline.lake.iceberg import IcebergTable
from pipeline.lake.live_files import ManifestReader
from pipeline.lake.quarantine_exchange import exchange
from pipeline.lake.schema import Columns, TableLayout
from pipeline.lake.sort_key import SORT_KEY
from pipeline.lake.spark_types import is_same
from pipeline.lake.stage_place import StagePlace, file_system
from pipeline.lake.summary import ledger_in
from pipeline.lake_ports import Exchange

_PROVENANCE: Columns = (
    ("stream", StringType(), "Name of the Kinesis stream"),
    ("stream_epoch", LongType(), "When the stream was created, in seconds"),
    ("shard_id", StringType(), "Unique within stream and stream_epoch only"),
    ("sequence_number", StringType(), "Of the record in the lake table; decimal digits"),
    ("sub_sequence_number", LongType(), "Place within a KPL aggregate"),
    ("arrival_ts", TimestamptzType(), "When Kinesis received the record"),
    (SORT_KEY, StringType(), "Sorts a shard's records, as in the lake table"),
)
PROVENANCE = tuple(name for name, _, _ in _PROVENANCE)
"""The columns of a typed table that tell from which record a row comes."""

_DAY = re.compile(r"arrival_ts_day=(\d{4}-\d\d-\d\d)/[0-9a-f]{32}\.parquet")
_TRIES = 20


class _Parsed(IcebergTable):
    def pages(self) -> Iterator[LedgerPage]:
        for link in self.history():
            if link.ours:
                with asking(f"the state of {self.identifier}"):
                    page = ledger_in(link.summary, self.states)
                yield page


class IcebergTyped(_Parsed):
    layout: ClassVar[TableLayout] = TableLayout(_PROVENANCE, no_bounds=())

    def with_columns(self, wanted: Sequence[tuple[str, IcebergType]]) -> tuple[pa.Schema, int]:
        """Add the parser's columns that the table lacks. Returns the columns that its files get, and the number of the table's schema."""
        for _ in range(_TRIES):
            table = self.open()
            missing = _missing(table, wanted)
            if not missing:
                return _file_schema(
                    table, [*PROVENANCE, *(name for name, _ in wanted)]
                ), table.schema().schema_id
            change = table.update_schema()
            for name, kind in missing:
                change.add_column(name, kind)
            self.check_clock()
            try:
                with asking(f"the table {self.identifier}"):
                    updates, only_if = change._commit()  # noqa: SLF001 - commit() deletes old metadata files
                    table.catalog.commit_table(table, only_if, updates)
            except CommitFailedException:
                continue
        raise Transient(
            f"columns of {self.identifier} couldn't be added: {_TRIES} times another commit was faster. Nothing was parsed; the next wave "
            "tries again"
        )


def _missing(table: Table, wanted: Sequence[tuple[str, IcebergType]]) -> list[tuple[str, IcebergType]]:
    there = {each.name: each.field_type for each in table.schema().fields}
    for name, kind in wanted:
        if name in there and not is_same(there[name], kind):
            raise WrongShape(
                f"the column {name} of {'.'.join(table.name())} is {there[name]}, and the parser now gives {kind}. Nothing was parsed, and no "
                "position moved; give the column another name in the schema, or let the target have another table"
            )
    return [(name, kind) for name, kind in wanted if name not in there]


def _file_schema(table: Table, names: Sequence[str]) -> pa.Schema:
    schema = schema_to_pyarrow(table.schema())
    return pa.schema([schema.field(name) for name in names])


class IcebergQuarantine(_Parsed):
    layout: ClassVar[TableLayout] = TableLayout(
        (
            *_PROVENANCE,
            ("partition_key", StringType(), "As in the lake table"),
            ("explicit_hash_key", StringType(), "As in the lake table"),
            ("data", BinaryType(), "The payload as it is in the lake table"),
            ("decode_error", StringType(), "As in the lake table. A record that has it is never parsed"),
            ("reason", StringType(), "Why the record couldn't be parsed"),
            ("version", StringType(), "The version of the parser that set the record aside"),
        ),
        no_bounds=("partition_key", "explicit_hash_key", "data", "decode_error", "reason"),
    )

    def file_schema(self) -> pa.Schema:
        return _file_schema(self.open(), [name for name, _, _ in self.layout.columns])

    def without(self, taken: frozenset[str], shards: frozenset[ShardKey]) -> Exchange:
        table = self.open()
        with asking(f"the storage of {self.identifier}"):
            _, live = ManifestReader().look(table)
        spec = self.staging_spec()
        files, root = file_system(spec)
        place = StagePlace(files, root, spec, self.file_schema())
        return exchange(taken, tuple(live), place, now=self.clock.now, shards=shards)

    def staged(self, name: str, shards: frozenset[ShardKey]) -> StagedFile:
        day = _DAY.fullmatch(name)
        path = f"{self.staging_spec().location}/{name}"
        if day is None:
            raise WrongShape(
                f"the ledger names a file {name!r} for {self.identifier}, and no file of Headrace has such a name"
            )
        source = self.open().io.new_input(path)
        with asking(f"the storage of {self.identifier}"):
            try:
                with source.open() as opened:
                    content: Any = opened
                    footer, size = pq.read_metadata(content), len(source)
            except (FileNotFoundError, pa.ArrowException) as error:
                raise WrongShape(
                    f"{path} has rows that a commit of the typed table has set aside, and can't be read ({type(error).__name__}): something "
                    "else deleted or changed it. No position moved; restore the file, which has rows of "
                    f"{', '.join(map(str, sorted(shards)))}"
                ) from error
        sink = pa.BufferOutputStream()
        footer.write_metadata_file(sink)
        # Upkeep deletes no file that a commit of the typed table has named: the file is as good as new.
        now = self.clock.now().astimezone(UTC)
        return StagedFile(path, shards, footer.num_rows, size, sink.getvalue().to_pybytes(), day[1], now)
