"""Shards that fail: noted in their rows where no wave could begin, and named in the sentence of a worker's tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from pipeline.core.change import note_failure
from pipeline.core.lease import Lease
from pipeline.core.words import counted
from pipeline.errors import HeadraceError, Terminal
from pipeline.ports import LeaseStore

Troubles = Mapping[str | None, HeadraceError]
"""Why a stream couldn't be asked, by what the lease rows call the stream."""


def note_undescribed(
    rows: Iterable[Lease], troubles: Troubles, *, me: str, leases: LeaseStore, at: datetime
) -> None:
    """A stream that can't be asked keeps its shards from being claimed, so no release tells of it: their rows do.

    Each row is written once. Trouble that passes by itself isn't noted: it would cost a write for each shard, and one
    more wave to remove it. A row that couldn't be written is noted at the next try.
    """
    leases.apply_all(
        [
            note_failure(row, me, str(troubles[row.stream]), at=at)
            for row in rows
            if isinstance(troubles.get(row.stream), Terminal)
            and row.failure is None
            and row.holder == me
            and not row.has_ended
        ]
    )


def failures_suffix(mine: Iterable[Lease]) -> str:
    """The end of a sentence; empty where no shard fails."""
    failing = sorted(
        (row.failure.since, row.key, row.failure.why) for row in mine if row.failure and not row.has_ended
    )
    if not failing:
        return ""
    since, key, why = failing[0]
    more = ", ..." if len(failing) > 1 else ""
    return (
        f", {counted(len(failing), 'shard')} failing ({key} since {since:%Y-%m-%d %H:%M:%S} UTC: {why}{more})"
    )
