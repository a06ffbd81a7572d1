"""What a table whose chain is broken still tells: its rows, and every snapshot of ours that metadata knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.lineage import LedgerPage
from pipeline.core.position import Positions
from pipeline.core.repair import Evidence, KnownState, LastRow, Picked
from pipeline.core.stream import ShardKey, StreamId
from pipeline.errors import ChainBroken
from pipeline.lake.catalog import asking
from pipeline.lake.chain import Known, Link, ancestors
from pipeline.lake.summary import ledger_in, positions_in

if TYPE_CHECKING:
    from pipeline.lake.iceberg import IcebergTable

_NEWEST = 50
"""Snapshots of ours that are read: each carries all positions, and what only older ones know was let go of since."""
_LONGEST = 129
"""Digits of a sequence number, by Kinesis's API: padded to it, they compare as text."""
_WHOSE = ["stream", "stream_epoch", "shard_id"]


def evidence_of(table: IcebergTable, streams: Iterable[StreamId]) -> Evidence:
    head, known = table.known()
    with asking(f"the state of {table.identifier}"):
        states = tuple(_states(table, known))
        reached, picked, is_whole = _over_picks(table, head, known)
    rows, strangers = _rows(table, {**_streams(states), **{s.name: s.arn for s in streams}})
    return Evidence(head, reached, picked, rows, states, is_whole, strangers)


def _states(table: IcebergTable, known: Known) -> Iterator[KnownState]:
    ours = sorted((link for link in known.values() if link.ours), key=lambda link: -link.sequence)
    for link in ours[:_NEWEST]:
        try:
            page = ledger_in(link.summary, table.states)
            yield KnownState(link.snapshot, positions_in(link.summary, table.states), page)
        except ChainBroken:
            continue  # its file is gone; an older snapshot's may not be


def _over_picks(
    table: IcebergTable, head: int | None, known: Known
) -> tuple[Positions | None, tuple[Picked, ...], bool]:
    picked: list[Picked] = []
    try:
        for link in ancestors(head, known, iter(())):
            if link.picked:
                picked.append(Picked(link.snapshot, _page_of_source(table, link, known)))
            elif link.ours:
                return positions_in(link.summary, table.states), tuple(reversed(picked)), False
    except ChainBroken:
        return None, tuple(reversed(picked)), False
    return None, tuple(reversed(picked)), True


def _page_of_source(table: IcebergTable, pick: Link, known: Known) -> LedgerPage | None:
    source = known.get(int(pick.source or 0))
    if source is None:
        return None
    return ledger_in(source.summary, table.states) if source.ours else LedgerPage()


def _streams(states: tuple[KnownState, ...]) -> dict[str, str]:
    """A row names its stream, a position its ARN."""
    return {s.name: s.arn for state in reversed(states) for s in state.positions.streams()}


def _rows(table: IcebergTable, arns: dict[str, str]) -> tuple[dict[ShardKey, LastRow], int]:
    """The last record of each shard. Records land whole, so that no row is the middle of one."""
    found: dict[ShardKey, LastRow] = {}
    strangers = 0
    with asking(f"the landing table {table.identifier}"):
        columns = (*_WHOSE, "sequence_number", "arrival_ts")
        for batch in table.open().scan(selected_fields=columns).to_arrow_batch_reader():
            for row in _last_rows(pa.Table.from_batches([batch])):
                if row["stream"] not in arns or row["sequence_number_max"] is None:
                    strangers += row["sequence_number_count"]
                    continue
                key = ShardKey(StreamId(arns[row["stream"]], row["stream_epoch"]), row["shard_id"])
                sequence = int(row["sequence_number_max"])
                if key not in found or found[key].sequence < sequence:
                    found[key] = LastRow(sequence, row["arrival_ts_max"])
    return found, strangers


def _last_rows(rows: pa.Table) -> list[dict[str, Any]]:
    padded = pc.utf8_lpad(rows["sequence_number"], _LONGEST, padding="0")
    grouped = rows.set_column(rows.schema.get_field_index("sequence_number"), "sequence_number", padded)
    return (
        grouped.group_by(_WHOSE)
        .aggregate([("sequence_number", "max"), ("sequence_number", "count"), ("arrival_ts", "max")])
        .to_pylist()
    )
