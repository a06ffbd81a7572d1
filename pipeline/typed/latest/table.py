"""A table of the latest rows on Iceberg: a typed table that knows its key, and the bounds of the key in its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, ClassVar

import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.errors import Transient, WrongShape
from headrace.pipeline.lake.table.attempts import MOST_TRIES
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.live_files import ManifestReader
from headrace.pipeline.lake.table.schema import TableLayout
from headrace.pipeline.settings.rules.schema import RECORD_KEY
from headrace.pipeline.typed.latest_plan import KeyBounds, KeyFile, LatestLook, may_have_keys
from headrace.pipeline.typed.table import GIVEN, IcebergTyped

_KEY = "headrace.latest.key"
"""Table property: the columns of which the table has one row for each key."""
_BOUNDS = "write.metadata.metrics.column."


class IcebergLatest(IcebergTyped):
    layout: ClassVar[TableLayout] = TableLayout(
        (*GIVEN, (RECORD_KEY, StringType(), "The partition key of the record")), no_bounds=()
    )
    key: tuple[str, ...] = (RECORD_KEY,)

    def ensure(self, *, create: bool) -> None:
        try:
            super().ensure(create=create)
        except WrongShape as error:
            self._refuse_rows_of_all_records(error)
            raise
        for _ in range(MOST_TRIES):
            table = self.open()
            self._check_key(table.properties)
            # Re-asserted at each look: other tools may remove properties that they don't know.
            missing = {name: value for name, value in self._wanted(table) if name not in table.properties}
            if not missing:
                return
            only_if = (AssertTableUUID(uuid=table.metadata.table_uuid),)
            try:
                with asking(f"the table {self.identifier}"):
                    table.catalog.commit_table(table, only_if, (SetPropertiesUpdate(updates=missing),))
            except CommitFailedException:
                continue
        raise Transient(
            f"properties of {self.identifier} couldn't be set: {MOST_TRIES} times another commit was faster. "
            "Nothing was parsed; the next wave tries again"
        )

    def _refuse_rows_of_all_records(self, error: WrongShape) -> None:
        table = self.open()
        # A table that was made for the latest rows and has lost the column keeps the property.
        if RECORD_KEY not in table.schema().column_names and _KEY not in table.properties:
            raise WrongShape(
                f"the table {self.identifier} has a row for each record, and the target has `into: latest` now. Nothing was "
                "parsed, and no row was changed; take `into: latest` out again, or give the target another table"
            ) from error

    def _wanted(self, table: Table) -> list[tuple[str, str]]:
        # Iceberg cuts bounds at 16 characters by default, and many keys begin with the same ones.
        names = [name for name in (RECORD_KEY, *self.key) if name in table.schema().column_names]
        return [(_KEY, ",".join(self.key)), *((f"{_BOUNDS}{name}", "full") for name in names)]

    def _check_key(self, properties: Mapping[str, str]) -> None:
        former, now = properties.get(_KEY), ",".join(self.key)
        if former not in (None, now):
            raise WrongShape(
                f"{self.identifier} has the latest row of each {former}, and the target's key is {now} now. Nothing was parsed, "
                "and no row was changed; take the former key, or give the target another table"
            )

    def look(self, staged: Sequence[StagedFile]) -> LatestLook:
        base = self.base()
        with asking(f"the storage of {self.identifier}"):
            live, entries = ManifestReader().look(base.table)
        lead = base.table.schema().find_field(self.key[0])
        files = (
            KeyFile(file.path, _bounds(entries[file.path].data_file, lead), deletes=bool(file.deletes))
            for file in live.files
        )
        of_wave = [_bounds_in_footer(file.footer, lead) for file in staged]
        return LatestLook(base.state.positions, may_have_keys(files, of_wave), live.obstacle)


def _bounds(file: DataFile, lead: NestedField) -> KeyBounds | None:
    """Only where texts or whole numbers are compared: these have the same values in Parquet's footers."""
    if not isinstance(lead.field_type, StringType | IntegerType | LongType):
        return None
    low, high = ((bounds or {}).get(lead.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    # A null is a key, too, and no bound tells of it: a file that may have one is always compared.
    if low is None or high is None or (file.null_value_counts or {}).get(lead.field_id, 1):
        return None
    return KeyBounds(*(from_bytes(lead.field_type, bound) for bound in (low, high)))


def _bounds_in_footer(footer: bytes, lead: NestedField) -> KeyBounds | None:
    metadata = pq.read_metadata(BytesIO(footer))
    bounds = [
        _bounds_of_group(metadata.row_group(group), lead.name) for group in range(metadata.num_row_groups)
    ]
    known = [bound for bound in bounds if bound is not None]
    # One row group without bounds may have any key, so that nothing is known of the file.
    if not known or len(known) < len(bounds):
        return None
    return KeyBounds(min(bound.low for bound in known), max(bound.high for bound in known))


def _bounds_of_group(group: Any, name: str) -> KeyBounds | None:
    columns = (group.column(number) for number in range(group.num_columns))
    statistics = next((column.statistics for column in columns if column.path_in_schema == name), None)
    if statistics is None or not statistics.has_min_max:
        return None
    if not statistics.has_null_count or statistics.null_count:
        return None
    return KeyBounds(statistics.min, statistics.max)
