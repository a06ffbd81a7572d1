"""The evidence from which `headrace repair` rebuilds positions: the rows of the lake table, and every snapshot of
Headrace that a metadata file still describes. It is needed where the walk over the snapshots finds no positions
any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from headrace.pipeline.core.landing.repair_plan import KnownState, LastRow, Picked, TableEvidence
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import ChainBroken, WrongShape
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.position_chain import Known, Link, ancestors
from headrace.pipeline.lake.table.state_files import StateFiles
from headrace.pipeline.lake.table.summary import ledger_in, positions_in

_NEWEST = 50
"""The most Headrace snapshots that are read, newest first. Each has all positions, so an older one knows more only
about shards whose positions were removed long ago.
"""
_LONGEST = 129
"""The most digits of a sequence number, by Kinesis's API. Padded to one length, sequence numbers compare as text."""
_SUB_DIGITS = 19
"""The most digits of a sub-sequence number."""
_UNREADABLE = "Unsupported file format"
"""pyiceberg's words for data files in Avro, which another engine may write."""
_OF_SHARD = ["stream", "stream_epoch", "shard_id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """A lake table from which evidence is read, whether or not its chain of snapshots is whole."""

    identifier: str
    table: Table
    head: int | None
    """The newest snapshot of main."""
    known: Known
    """Every snapshot that the current metadata or a file in its log describes, on main or not."""
    states: StateFiles


def evidence_of(remains: Remains, streams: Iterable[StreamId]) -> TableEvidence:
    with asking(f"the state of {remains.identifier}"):
        states = tuple(_states(remains))
        reached, picked, is_whole = _over_picks(remains)
    rows, strangers = _rows(remains, {**_streams(states), **{s.name: s.arn for s in streams}})
    return TableEvidence(remains.head, reached, picked, rows, states, is_whole, strangers)


def _states(remains: Remains) -> Iterator[KnownState]:
    # Also those that main doesn't lead to: where the chain is broken, they are evidence all the same.
    ours = sorted((link for link in remains.known.values() if link.ours), key=lambda link: -link.sequence)
    for link in ours[:_NEWEST]:
        try:
            page = ledger_in(link.summary, remains.states)
            yield KnownState(link.snapshot, positions_in(link.summary, remains.states), page)
        except ChainBroken:
            continue  # the file with its positions is gone; the file of an older snapshot may still exist


def _over_picks(remains: Remains) -> tuple[Positions | None, tuple[Picked, ...], bool]:
    """The newest positions that main leads to, the cherry-picks above them (oldest first), and whether the walk came to
    the table's first snapshot without finding positions."""
    picked: list[Picked] = []
    try:
        for link in ancestors(remains.head, remains.known, iter(())):
            if link.picked:
                picked.append(Picked(link.snapshot, _page_of_source(remains, link), link.parent))
            # The first one on the way back: what is older, it has carried on.
            elif link.ours:
                return positions_in(link.summary, remains.states), tuple(reversed(picked)), False
    except ChainBroken:
        return None, tuple(reversed(picked)), False
    return None, tuple(reversed(picked)), True


def _page_of_source(remains: Remains, pick: Link) -> LedgerPage | None:
    """The ledger of the snapshot whose rows a cherry-pick brought. Empty if another engine wrote that snapshot; None if
    no metadata file describes it."""
    source = remains.known.get(int(pick.source or 0))
    if source is None:
        return None
    return ledger_in(source.summary, remains.states) if source.ours else LedgerPage()


def _streams(states: tuple[KnownState, ...]) -> dict[str, str]:
    """Stream name -> ARN, from the known positions: rows have the name only."""
    # The newest state comes last, and wins where a stream has two ARNs.
    return {s.name: s.arn for state in reversed(states) for s in state.positions.streams()}


def _rows(remains: Remains, arns: dict[str, str]) -> tuple[dict[ShardKey, LastRow], int]:
    """The last row of each shard, and the number of rows of unknown streams. All user records of a Kinesis record land
    together, so the last row is the end of a record.
    """
    last: dict[ShardKey, LastRow] = {}
    strangers = 0
    with asking(f"the lake table {remains.identifier}"):
        columns = (*_OF_SHARD, "sequence_number", "sub_sequence_number", "arrival_ts")
        for batch in _batches(remains, columns):
            ours = with_landed_form(pa.Table.from_batches([batch]))
            strangers += len(batch) - len(ours)
            for row in _last_rows(ours):
                # A name without an ARN: it was another engine's row, or the stream is long gone. A person decides.
                if row["stream"] not in arns:
                    strangers += row["place_count"]
                    continue
                key = ShardKey(StreamId(arns[row["stream"]], row["stream_epoch"]), row["shard_id"])
                sequence, sub = map(int, row["place_max"].split(":"))
                if key not in last or (last[key].sequence, last[key].sub) < (sequence, sub):
                    last[key] = LastRow(sequence, row["arrival_ts_max"], sub)
    return last, strangers


def with_landed_form(rows: pa.Table) -> pa.Table:
    """Those of the rows that a landing can have written. Another engine may insert rows without epoch or shard,
    or with any text as their sequence number, also under the name of a stream.
    """
    numbers: Any = pc.match_substring_regex(rows["sequence_number"], f"^[0-9]{{1,{_LONGEST}}}$")
    keys: Any = pc.and_(rows["stream_epoch"].is_valid(), rows["shard_id"].is_valid())
    # Where the number is null, the filter drops the row.
    return rows.filter(pc.and_(keys, numbers))


def _batches(remains: Remains, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    try:
        yield from remains.table.scan(selected_fields=columns).to_arrow_batch_reader()
    except ValueError as error:
        if _UNREADABLE not in str(error):
            raise
        raise WrongShape(
            f"the lake table {remains.identifier} has data files that pyiceberg can't read ({error}). Nothing was changed; let the engine "
            "that wrote these files rewrite them as Parquet, then run the command again"
        ) from error


def _last_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """For each shard in these rows: its highest place (sequence number and sub-sequence number), its latest arrival,
    and the number of its rows."""
    # A scan gives texts of either of Arrow's types, and they are joined in one type only.
    number: Any = pc.utf8_lpad(rows["sequence_number"].cast(pa.string()), _LONGEST, padding="0")
    # The stubs of pyarrow's functions know no mixture of columns and numbers.
    column: Any = rows["sub_sequence_number"]
    none: Any = 0
    sub = pc.cast(pc.fill_null(column, none), pa.string())
    place = pc.binary_join_element_wise(number, pc.utf8_lpad(sub, _SUB_DIGITS, padding="0"), ":")
    grouped = rows.append_column("place", place)
    return (
        grouped.group_by(_OF_SHARD)
        .aggregate([("place", "max"), ("place", "count"), ("arrival_ts", "max")])
        .to_pylist()
    )
