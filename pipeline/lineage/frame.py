"""The ledger as a pandas data frame: which records of which shard went into which snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
from headrace.pipeline.core.shards.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

COLUMNS = {
    "at": "datetime64[ms, UTC]",
    "snapshot": "int64",
    "stream": "string",
    "stream_epoch": "int64",
    "shard": "string",
    "kind": "string",
    "after": "string",
    "upto": "string",
    "rows": "int64",
    "records": "int64",
    "unpacked": "bool",
    "bytes": "int64",
    "first_arrival": "datetime64[ms, UTC]",
    "last_arrival": "datetime64[ms, UTC]",
    "run": "string",
    "parents": "string",
    "children": "string",
    "why": "string",
}
"""Name of a column -> its type in pandas. Sequence numbers have 56 digits, too many for a number, so they are text."""


def lineage_frame(entries: Iterable[LedgerEntry | Lost]) -> pd.DataFrame:
    """One row for each range, in the order of the entries. Of a part of the history whose ledger is lost, the ranges
    that were derived from rows are shown, with the first known snapshot after them."""
    import pandas as pd

    rows = [
        (
            entry.at,
            entry.snapshot,
            recorded.key.stream.name,
            recorded.key.stream.epoch,
            recorded.key.shard_id,
            recorded.kind.value,
            _text(recorded.after),
            _text(recorded.upto),
            recorded.rows,
            recorded.records,
            recorded.unpacked,
            recorded.bytes,
            recorded.first_arrival,
            recorded.last_arrival,
            recorded.run,
            ", ".join(f"{p.shard_id} ({p.why})" for p in recorded.parents),
            ", ".join(recorded.upto.children),
            recorded.stored_why,
        )
        for entry in entries
        for recorded in (entry.page.ranges if isinstance(entry, LedgerEntry) else entry.ranges)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


ACCOUNTS = {
    "parsed": "int64",
    "quarantined": "int64",
    "dropped": "string",
    "version": "string",
    "schema": "int64",
    "code": "string",
}
"""Further columns of the ledger of a typed table: what became of the rows, and what has parsed them."""


def parsed_frame(entries: Iterable[LedgerEntry | Lost]) -> pd.DataFrame:
    """The ledger of a typed table as a data frame. Where `why` has an accounting, its numbers are columns of their
    own."""
    frame = lineage_frame(entries)
    accounts = [read_accounting(why) if why.startswith("{") else Accounting(0, 0) for why in frame["why"]]
    values: dict[str, Any] = {
        "parsed": [account.parsed for account in accounts],
        "quarantined": [account.quarantined for account in accounts],
        "dropped": [
            ", ".join(f"{rows} by {why}" for why, rows in sorted(account.dropped.items()))
            for account in accounts
        ],
        "version": [account.version for account in accounts],
        "schema": [account.schema for account in accounts],
        "code": [account.code for account in accounts],
    }
    return frame.assign(**values).astype(ACCOUNTS)


def _text(position: Position | None) -> str:
    return "the start" if position is None else str(position)
