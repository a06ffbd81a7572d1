"""Rows of the lineage table as the ledgers that they tell. The product reads their ranges in columns (`headrace.pipeline.lineage.decode`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.pipeline.core.ledger.ledger import (
    Kind,
    LedgerEntry,
    Lost,
    ParentIs,
    ParentReason,
    Range,
    why_and_account,
)
from headrace.pipeline.core.ledger.pages import LedgerPages, SnapshotPlace
from headrace.pipeline.core.ledger.rows import DERIVED, RANGE, Row, put, start_in
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId


def ledgers_in(rows: Iterable[Row]) -> Iterator[LedgerEntry | Lost]:
    """What these rows tell, oldest first."""
    pages = LedgerPages()
    for row in rows:
        where = SnapshotPlace(row["snapshot_sequence"], row["snapshot_id"])
        if row["entry"] == DERIVED:
            pages.of(where, row["snapshot_at"]).derived.append((row["place"], _range_in(row)))
        elif row["entry"] == RANGE:
            page = pages.ours(where, row["snapshot_at"], writer=row["writer"])
            page.ranges.append((row["place"], _range_in(row)))
        else:
            put(row, pages)
    return pages.entries()


def _range_in(row: Row) -> Range:
    kind = Kind(row["kind"])
    why, account = why_and_account(kind, row["why"])
    return Range(
        kind,
        ShardKey(StreamId(row["stream_arn"], row["stream_epoch"]), row["shard_id"]),
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
        why=why,
        account=account,
        records=row["records"],
        unpacked=row["unpacked"],
    )


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
        skipped_until=row["skipped_until"],
    )
