"""Rows of the lineage table: from the ledger of a snapshot to rows, and back to exactly the same ledger.

    entry        is
    range        a range of the ledger: most rows
    origin       where the reading of a stream starts
    dropped      a shard whose END was removed
    empty        the only row of a snapshot of Headrace that landed nothing
    lost         a part of the history whose ledger is missing; `why` says what happened
    derived      a range of a lost part, derived from rows of the lake table

A row is a dictionary from column to value. The columns are described in `headrace.pipeline.lineage.schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost, Range
from headrace.pipeline.core.ledger.pages import LedgerPages, SnapshotPlace
from headrace.pipeline.core.shards.position import Origin, Position, Start
from headrace.pipeline.core.shards.sort_texts import order_text
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

Row = Mapping[str, Any]

RANGE, ORIGIN, DROPPED, EMPTY = "range", "origin", "dropped", "empty"
LOST, DERIVED = "lost", "derived"
_TRIM = "TRIM_HORIZON"


def lineage_rows_of(entry: LedgerEntry | Lost) -> list[Row]:
    if isinstance(entry, Lost):
        lost_rows: list[Row] = [{"entry": LOST, "why": entry.why}]
        lost_rows += [{**_range_out(derived), "entry": DERIVED} for derived in entry.ranges]
        return [{**_where(entry), "place": place, **row} for place, row in enumerate(lost_rows)]
    page = entry.page
    rows: list[Row] = [_range_out(recorded) for recorded in page.ranges]
    rows += [_origin_out(stream, origin) for stream, origin in page.origins]
    rows += [{"entry": DROPPED, **_key_out(key)} for key in page.dropped]
    where = {**_where(entry), "writer": entry.writer}
    # The place keeps the order within the page.
    return [{**where, "place": place, **row} for place, row in enumerate(rows or [{"entry": EMPTY}])]


def put(row: Row, pages: LedgerPages) -> None:
    """Add a row that isn't a range to the pages. (`headrace.pipeline.lineage.decode` reads ranges, many at once.)"""
    where = SnapshotPlace(row["snapshot_sequence"], row["snapshot_id"])
    when, place = row["snapshot_at"], row["place"]
    if row["entry"] == LOST:
        pages.of(where, when).lost.append((place, row["why"]))
        return
    page = pages.ours(where, when, writer=row["writer"])
    if row["entry"] == ORIGIN:
        page.origins.append((place, (_stream_in(row), _origin_in(row))))
    elif row["entry"] == DROPPED:
        page.dropped.append((place, _key_in(row)))


def _where(entry: LedgerEntry | Lost) -> dict[str, Any]:
    return {
        "snapshot_id": entry.snapshot,
        "snapshot_sequence": entry.sequence,
        "snapshot_at": entry.at,
    }


def _range_out(recorded: Range) -> Row:
    return {
        "entry": RANGE,
        **_key_out(recorded.key),
        "kind": recorded.kind.value,
        "after": None if recorded.after is None else _position_out(recorded.after),
        "upto": _position_out(recorded.upto),
        "rows": recorded.rows,
        "bytes": recorded.bytes,
        "first_arrival": recorded.first_arrival,
        "last_arrival": recorded.last_arrival,
        "run": recorded.run,
        "claim": recorded.claim,
        "files": list(recorded.files),
        "parents": [{"shard_id": p.shard_id, "why": p.why.value, "by": p.by} for p in recorded.parents],
        "why": recorded.stored_why,
        "records": recorded.records,
        "unpacked": recorded.unpacked,
    }


def _origin_out(stream: StreamId, origin: Origin) -> Row:
    described = {"start": _start_out(origin.start), "decided": origin.decided}
    return {"entry": ORIGIN, **_stream_out(stream), "origin": described}


def _origin_in(row: Row) -> Origin:
    return Origin(start_in(row["origin"]["start"]), row["origin"]["decided"])


def _position_out(position: Position) -> Row:
    return {
        # As text: no decimal type of Iceberg holds 129 digits.
        "sequence_number": None if position.sequence is None else str(position.sequence),
        "sub_sequence_number": position.sub,
        "ended": position.ended,
        "sort_key": order_text(position),
        "children": list(position.children),
        "arrival": position.arrival,
        "seen": position.seen,
        "start": None if position.start is None else _start_out(position.start),
        "gap_accepted": position.gap_accepted,
        "inside": position.inside,
        "skipped_until": position.skipped_until,
    }


def _start_out(start: Start) -> str:
    return _TRIM if start.at is None else start.at.isoformat()


def start_in(text: str) -> Start:
    return Start(None if text == _TRIM else datetime.fromisoformat(text))


def _stream_out(stream: StreamId) -> Row:
    return {"stream": stream.name, "stream_arn": stream.arn, "stream_epoch": stream.epoch}


def _stream_in(row: Row) -> StreamId:
    return StreamId(row["stream_arn"], row["stream_epoch"])


def _key_out(key: ShardKey) -> Row:
    return {**_stream_out(key.stream), "shard_id": key.shard_id}


def _key_in(row: Row) -> ShardKey:
    return ShardKey(_stream_in(row), row["shard_id"])
