"""The lake table, and the time up to which it has all records."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

HOME = Path("headrace-data").resolve()


def open_table() -> Table:
    catalog = SqlCatalog(
        "headrace", uri=f"sqlite:///{HOME / 'catalog.db'}", warehouse=str(HOME / "warehouse")
    )
    return catalog.load_table("lake.orders")


def valid_through(table: Table) -> datetime | None:
    """All records that arrived before this time are in the table. None as long as Headrace doesn't state a time."""
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if "headrace.run" in summary:
            told = summary.get("headrace.valid-through")
            return None if told is None else datetime.fromisoformat(told)
    return None


def records_between(table: Table, since: datetime, upto: datetime, *columns: str) -> pa.Table:
    """The records that arrived in this time, as an Arrow table."""
    wanted = f"arrival_ts >= '{since.isoformat()}' and arrival_ts < '{upto.isoformat()}'"
    return table.scan(row_filter=wanted, selected_fields=columns).to_arrow()
