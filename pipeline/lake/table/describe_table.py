"""The facts of a table, from its newest metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from headrace.pipeline.ports.described_table import Column, TableDescription

_LATELY = timedelta(hours=1)


def describe_table(table: Table, now: datetime) -> TableDescription:
    snapshot = table.current_snapshot()
    totals = {} if snapshot is None else _summary(snapshot)
    return TableDescription(
        name=".".join(table.name()),
        location=table.location(),
        columns=tuple(
            Column(field.name, str(field.field_type), field.doc or "", field.required)
            for field in table.schema().fields
        ),
        snapshot=None if snapshot is None else snapshot.snapshot_id,
        rows=_number(totals, "total-records") - _number(totals, "total-position-deletes"),
        files=_number(totals, "total-data-files"),
        bytes=_number(totals, "total-files-size"),
        added_lately=sum(
            _number(_summary(appended), "added-records") for appended in _appended(table, now - _LATELY)
        ),
    )


def _appended(table: Table, since: datetime) -> Iterator[Snapshot]:
    """Main's snapshots since this time that only added rows, newest first, as far as the newest metadata has them."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.current_snapshot()
    while snapshot is not None and snapshot.timestamp_ms >= since.timestamp() * 1000:
        if snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND:
            yield snapshot
        snapshot = by_id.get(snapshot.parent_snapshot_id or 0)


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _number(summary: Mapping[str, str], name: str) -> int:
    # Another engine may leave a total out.
    text = summary.get(name, "0")
    return int(text) if text.isdecimal() else 0
