"""What Headrace's workers have landed, read from their lake table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.lake.table.plain_read import ledger, rows
from headrace.pipeline.settings.model import LandingSettings, Settings
from tests.interop.aggregates.user_records import Row
from tests.interop.overlaps import Commit
from tests.interop.records import Record

if TYPE_CHECKING:
    from headrace.pipeline.lake.table.lake_table import IcebergTable

_COLUMNS = (
    "shard_id",
    "sequence_number",
    "sub_sequence_number",
    "partition_key",
    "explicit_hash_key",
    "data",
    "decode_error",
    "sort_key",
)


@dataclass(frozen=True, slots=True)
class Lake:
    """The lake table in this folder that all of Headrace's workers share. It may not exist yet."""

    home: Path

    def records(self) -> list[Record]:
        """All records of the table, each as often as it is there."""
        if not self.home.exists():
            return []
        found = rows(self._table, ["shard_id", "sequence_number", "data"]).to_pylist()
        return [Record(row["shard_id"], row["sequence_number"], bytes(row["data"]).decode()) for row in found]

    def sequences(self) -> set[str]:
        """The sequence numbers of the Kinesis records that have landed."""
        if not self.home.exists():
            return set()
        return {row["sequence_number"] for row in rows(self._table, ["sequence_number"]).to_pylist()}

    def user_records(self) -> dict[str, list[Row]]:
        """The rows of each shard, by their sort keys."""
        found: dict[str, list[Row]] = {}
        for row in rows(self._table, _COLUMNS).sort_by("sort_key").to_pylist():
            made = Row(*(row[name] for name in _COLUMNS[:-1]))
            found.setdefault(made.shard, []).append(made)
        return found

    def commits(self) -> list[Commit]:
        """What each commit landed of each shard, oldest first."""
        if not self.home.exists():
            return []
        return [
            Commit(
                at=entry.at.timestamp(),
                shard=each.key.shard_id,
                after=each.after.sequence if each.after is not None else None,
                upto=each.upto.sequence,
                rows=each.rows,
                ended=each.upto.ended,
            )
            for entry in ledger(self._table)
            for each in entry.page.ranges
            if each.kind is Kind.LANDED
        ]

    @property
    def _table(self) -> IcebergTable:
        settings = Settings(application="reader", landing=LandingSettings(home=str(self.home)))
        return Adapters(settings).table("reader")
