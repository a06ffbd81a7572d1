"""A typed table and its quarantine table on Iceberg: rows and positions land in them as in the lake table, with
other columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.table.update import AssertCurrentSchemaId, AssertTableUUID, SetPropertiesUpdate
from pyiceberg.types import BinaryType, LongType, NestedField, StringType, TimestamptzType

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Transient, WrongShape
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.live_files import ManifestReader
from headrace.pipeline.lake.table.remedy import Remedy, of_typed
from headrace.pipeline.lake.table.schema import Columns, TableLayout
from headrace.pipeline.lake.table.summary import ledger_in
from headrace.pipeline.settings.rules.schema import RECORD_KEY
from headrace.pipeline.typed.columns.changes import Change, change_to
from headrace.pipeline.typed.columns.spark_types import iceberg_type, spark_field
from headrace.pipeline.typed.json.column_types import spark_of, struct_of
from headrace.pipeline.typed.json.columns import Struct
from headrace.pipeline.typed.json.growth import changes
from headrace.pipeline.typed.ports import Exchange
from headrace.pipeline.typed.tasks.exchange import exchange

GIVEN: Columns = (
    ("stream", StringType(), "Name of the Kinesis stream"),
    ("stream_epoch", LongType(), "When the stream was created, in seconds"),
    ("shard_id", StringType(), "Unique within stream and stream_epoch only"),
    ("sequence_number", StringType(), "Of the record in the lake table; decimal digits"),
    ("sub_sequence_number", LongType(), "Place within a KPL aggregate"),
    ("arrival_ts", TimestamptzType(), "When Kinesis received the record"),
    (SORT_KEY, StringType(), "Sorts a shard's records, as in the lake table"),
)
PROVENANCE = tuple(name for name, _, _ in GIVEN)
"""The columns of a typed table that tell from which record a row comes."""

_DAY = re.compile(r"arrival_ts_day=(\d{4}-\d\d-\d\d)/[0-9a-f]{32}\.parquet")
_TRIES = 20
_COLUMNS, _FROZEN = "headrace.columns", "frozen"
"""Table property: the columns were inferred from payloads, and stay as they are (`columns: inferred`)."""


_QUARANTINE = "_quarantine"
"""The end of the quarantine table's name; the rest is the typed table's."""


class _Parsed(IcebergTable):
    def pages(self) -> Iterator[LedgerPage]:
        for link in self.history():
            if link.ours:
                with asking(f"the state of {self.identifier}"):
                    page = ledger_in(link.summary, self.states)
                yield page


class IcebergTyped(_Parsed):
    layout: ClassVar[TableLayout] = TableLayout(GIVEN, no_bounds=())

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the columns that Headrace adds to each row of the table."""
        return tuple(name for name, _, _ in self.layout.columns)

    def ensure(self, *, create: bool) -> None:
        super().ensure(create=create)
        if RECORD_KEY not in self.given and RECORD_KEY in self.open().schema().column_names:
            raise WrongShape(
                f"the table {self.identifier} has one row for each key (it was made with `into: latest`), and the target "
                "lands a row for each record now. Nothing was parsed, and no row was changed; "
                "say into: latest again, or give the target another table"
            )

    @property
    def remedy(self) -> Remedy:
        return of_typed(self.identifier, typed=self.identifier, quarantine=f"{self.identifier}{_QUARANTINE}")

    def with_columns(
        self, columns: Sequence[NestedField], *, may_have_more: bool = False
    ) -> tuple[pa.Schema, int]:
        """Change the table so that it has the parser's columns (`headrace.pipeline.typed.columns.changes`).
        Returns the columns that its files get, and the number of the table's schema. `may_have_more`: the table
        may have more columns than the parser names, and its structs more fields.
        """
        names = [*self.given, *(column.name for column in columns)]
        table = self._changed(
            lambda table: change_to(table, columns, _own(table), may_have_more=may_have_more)
        )
        return _file_schema(table, names), table.schema().schema_id

    def check_columns(self, columns: Sequence[NestedField], *, may_have_more: bool) -> None:
        """Raises WrongShape where the rows that the table has don't let it get these columns. Changes nothing."""
        if self.exists():
            table = self.open()
            change_to(table, columns, _own(table), may_have_more=may_have_more)

    def own_columns(self) -> OwnColumns:
        return _own_columns(self.open())

    def grown(self, grow: Callable[[Struct], Struct], *, freezes: bool) -> tuple[OwnColumns, pa.Schema, int]:
        """Change the table's columns to those that `grow` makes of the present ones. `freezes`: leave frozen
        columns as they are, and freeze those of a table that isn't frozen yet.

        If two processes do so at once, the catalog's compare-and-swap lets one win, and the other calls `grow`
        with the winner's columns. Returns the columns, those of the files, and the number of the table's schema.
        """

        def change(table: Table) -> Change | None:
            own = _own_columns(table)
            if freezes and own.are_frozen:
                return None
            update, is_changed = table.update_schema(), False
            for growth in changes(own.columns, grow(own.columns)):
                path, kind = (
                    tuple(step or "element" for step in growth.path),
                    iceberg_type(spark_of(growth.kind)),
                )
                is_changed = True
                if growth.is_new:
                    update.add_column(path, kind)
                else:
                    update.update_column(path, field_type=kind)
            # Not commit(), which deletes old metadata files. Its requirement is on the current schema.
            return update._commit() if is_changed else None  # noqa: SLF001

        table = self._changed(change, freezes=freezes)
        own = _own_columns(table)
        names = [*self.given, *(field["name"] for field in own.spark)]
        return own, _file_schema(table, names), table.schema().schema_id

    def _changed(self, change: Callable[[Table], Change | None], *, freezes: bool = False) -> Table:
        """The table after a change of its columns, in which `change` finds nothing left to do."""
        for _ in range(_TRIES):
            table = self.open()
            # On the newest schema each time: the slower process finds what the faster one has added.
            update = change(table)
            # A table without columns of its own has nothing to freeze.
            freezing = freezes and not _is_frozen(table) and (update is not None or bool(_own(table)))
            if update is None and not freezing:
                return table
            self.check_clock()
            updates, only_if = update or ((), ())
            if freezing:
                current = AssertCurrentSchemaId.model_validate(
                    {"current-schema-id": table.schema().schema_id}
                )
                updates = (*updates, SetPropertiesUpdate(updates={_COLUMNS: _FROZEN}))
                # Freezing alone changes no schema, and brings no requirement: another process may be adding a column
                # just now.
                only_if = (AssertTableUUID(uuid=table.metadata.table_uuid), current)
            try:
                with asking(f"the table {self.identifier}"):
                    table.catalog.commit_table(table, only_if, updates)
            except CommitFailedException:
                continue
        raise Transient(
            f"columns of {self.identifier} couldn't be added: {_TRIES} times another commit was faster. "
            "Nothing was parsed; the next wave tries again"
        )


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """The columns of a typed table that come from its records, without those that Headrace adds to each typed table."""

    columns: Struct
    spark: tuple[Mapping[str, Any], ...]
    """These columns as fields of a struct, as Spark writes them in JSON. Columns that Spark can't read out of JSON,
    such as a time of the day, are left out."""
    are_frozen: bool


def _own(table: Table) -> tuple[NestedField, ...]:
    return tuple(field for field in table.schema().fields if field.name not in (*PROVENANCE, RECORD_KEY))


def _own_columns(table: Table) -> OwnColumns:
    own = [(field, spark_field(field)) for field in _own(table)]
    kinds = ((field.name, spark["type"] or str(field.field_type)) for field, spark in own)
    columns = struct_of(kinds, required=[field.name for field, _ in own if field.required])
    readable = tuple(spark for _, spark in own if spark["type"] is not None)
    return OwnColumns(columns, readable, _is_frozen(table))


def _is_frozen(table: Table) -> bool:
    return table.properties.get(_COLUMNS) == _FROZEN


def _file_schema(table: Table, names: Sequence[str]) -> pa.Schema:
    schema = schema_to_pyarrow(table.schema())
    return pa.schema([schema.field(name) for name in names])


class IcebergQuarantine(_Parsed):
    layout: ClassVar[TableLayout] = TableLayout(
        (
            *GIVEN,
            ("partition_key", StringType(), "As in the lake table"),
            ("explicit_hash_key", StringType(), "As in the lake table"),
            ("data", BinaryType(), "The payload as it is in the lake table"),
            ("decode_error", StringType(), "As in the lake table. A record that has it is never parsed"),
            ("reason", StringType(), "Why the record couldn't be parsed"),
            ("version", StringType(), "The version of the parser that set the record aside"),
        ),
        no_bounds=("partition_key", "explicit_hash_key", "data", "decode_error", "reason"),
    )

    @property
    def remedy(self) -> Remedy:
        typed = self.identifier.removesuffix(_QUARANTINE)
        return of_typed(self.identifier, typed=typed, quarantine=self.identifier)

    def file_schema(self) -> pa.Schema:
        return _file_schema(self.open(), [name for name, _, _ in self.layout.columns])

    def without(self, taken: frozenset[str], shards: frozenset[ShardKey]) -> Exchange:
        table = self.open()
        with asking(f"the storage of {self.identifier}"):
            look, live = ManifestReader().look(table)
        spec = self.staging_spec()
        files, root = file_system(spec)
        # All columns, also those that others have added to the table.
        place = StagePlace(files, root, spec, schema_to_pyarrow(table.schema()))
        exchanged = exchange(taken, tuple(live), place, now=self.clock.now, shards=shards)
        deleted = next(
            (file.path for file in look.files if file.deletes and file.path in exchanged.gone), None
        )
        if exchanged.gone and (look.obstacle or deleted):
            why = look.obstacle or f"another engine has deleted rows of {deleted} by a delete file"
            raise WrongShape(
                f"rows that a commit of the typed table has decided about can't leave {self.identifier} now: {why}. "
                "No row is lost, and until they leave it these rows may be in both tables; "
                "let that engine run its rewrite_data_files, and the next wave or redrive goes on"
            )
        return exchanged

    def reasons(self) -> Counter[str]:
        with asking(f"the storage of {self.identifier}"):
            scan = self.open().scan(selected_fields=("reason",))
            counts: Counter[str] = Counter()
            for batch in scan.to_arrow_batch_reader():
                reasons: Any = batch["reason"]
                for tally in reasons.value_counts().to_pylist():
                    counts[tally["values"] or ""] += tally["counts"]
        return counts

    def staged(self, name: str, shards: frozenset[ShardKey]) -> StagedFile:
        # The name comes from a ledger: one of another form could lead to a file that isn't the table's.
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
                    f"{path} has rows that a commit of the typed table has set aside, and can't be read "
                    f"({type(error).__name__}): something else deleted or changed it. No position moved; "
                    f"restore the file, which has rows of {', '.join(map(str, sorted(shards)))}"
                ) from error
        sink = pa.BufferOutputStream()
        footer.write_metadata_file(sink)
        # Upkeep deletes no file that a commit of the typed table has named: the file is as good as new.
        moment = self.clock.now().astimezone(UTC)
        return StagedFile(path, shards, footer.num_rows, size, sink.getvalue().to_pybytes(), day[1], moment)
