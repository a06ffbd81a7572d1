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

from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, ParentIs, ParentReason, Range
from headrace.pipeline.core.ledger.pages import LedgerPages, SnapshotPlace
from headrace.pipeline.core.shards.position import Origin, Position, Start
from headrace.pipeline.core.shards.sort_texts import order_text
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

Row = Mapping[str, Any]

RANGE, ORIGIN, DROPPED, EMPTY = "range", "origin", "dropped", "empty"
LOST, DERIVED = "lost", "derived"
_TRIM = "TRIM_HORIZON"


def rows_of(entry: LedgerEntry | Lost) -> list[Row]:
    if isinstance(entry, Lost):
        parts: list[Row] = [{"entry": LOST, "why": entry.why}]
        parts += [{**_range_out(each), "entry": DERIVED} for each in entry.ranges]
        return [{**_where(entry), "place": place, **row} for place, row in enumerate(parts)]
    page = entry.page
    rows: list[Row] = [_range_out(each) for each in page.ranges]
    rows += [_origin_out(stream, origin) for stream, origin in page.origins]
    rows += [{"entry": DROPPED, **_key_out(key)} for key in page.dropped]
    where = {**_where(entry), "writer": entry.writer}
    # The place keeps the order within the page.
    return [{**where, "place": place, **row} for place, row in enumerate(rows or [{"entry": EMPTY}])]


def put(row: Row, pages: LedgerPages) -> None:
    """Add what this row tells."""
    where = SnapshotPlace(row["snapshot_sequence"], row["snapshot_id"])
    at, place = row["snapshot_at"], row["place"]
    if row["entry"] == LOST:
        pages.of(where, at).lost.append((place, row["why"]))
        return
    if row["entry"] == DERIVED:
        pages.of(where, at).derived.append((place, _range_in(row)))
        return
    page = pages.ours(where, at, writer=row["writer"])
    if row["entry"] == RANGE:
        page.ranges.append((place, _range_in(row)))
    elif row["entry"] == ORIGIN:
        page.origins.append((place, (_stream_in(row), _origin_in(row))))
    elif row["entry"] == DROPPED:
        page.dropped.append((place, _key_in(row)))


def _where(entry: LedgerEntry | Lost) -> dict[str, Any]:
    return {
        "snapshot_id": entry.snapshot,
        "snapshot_sequence": entry.sequence,
        "snapshot_at": entry.at,
    }


def _range_out(each: Range) -> Row:
    return {
        "entry": RANGE,
        **_key_out(each.key),
        "kind": each.kind.value,
        "after": None if each.after is None else _position_out(each.after),
        "upto": _position_out(each.upto),
        "rows": each.rows,
        "bytes": each.bytes,
        "first_arrival": each.first_arrival,
        "last_arrival": each.last_arrival,
        "run": each.run,
        "claim": each.claim,
        "files": list(each.files),
        "parents": [{"shard_id": p.shard_id, "why": p.why.value, "by": p.by} for p in each.parents],
        "why": each.why,
        "records": each.records,
        "unpacked": each.unpacked,
    }


def _range_in(row: Row) -> Range:
    return Range(
        Kind(row["kind"]),
        _key_in(row),
        after=None if row["after"] is None else _position_in(row["after"]),
        upto=_position_in(row["upto"]),
        run=row["run"],
        claim=row["claim"],
        rows=row["rows"],
        bytes=row["bytes"],
        first_arrival=row["first_arrival"],
        last_arrival=row["last_arrival"],
        files=tuple(row["files"]),
        parents=tuple(ParentReason(p["shard_id"], ParentIs(p["why"]), p["by"]) for p in row["parents"]),
        why=row["why"],
        records=row["records"],
        unpacked=row["unpacked"],
    )


def _origin_out(stream: StreamId, origin: Origin) -> Row:
    described = {"start": _start_out(origin.start), "decided": origin.decided}
    return {"entry": ORIGIN, **_stream_out(stream), "origin": described}


def _origin_in(row: Row) -> Origin:
    return Origin(start_in(row["origin"]["start"]), row["origin"]["decided"])


def _position_out(at: Position) -> Row:
    return {
        "sequence_number": None if at.sequence is None else str(at.sequence),
        "sub_sequence_number": at.sub,
        "ended": at.ended,
        "sort_key": order_text(at),
        "children": list(at.children),
        "arrival": at.arrival,
        "seen": at.seen,
        "start": None if at.start is None else _start_out(at.start),
        "gap_accepted": at.gap_accepted,
        "inside": at.inside,
    }


def _position_in(row: Row) -> Position:
    sequence, start = row["sequence_number"], row["start"]
    return Position(
        None if sequence is None else int(sequence),
        row["sub_sequence_number"],
        ended=row["ended"],
        children=tuple(row["children"]),
        arrival=row["arrival"],
        seen=row["seen"],
        start=None if start is None else start_in(start),
        gap_accepted=row["gap_accepted"],
        inside=row["inside"],
    )


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
