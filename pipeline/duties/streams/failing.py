"""Shards that fail: the reason is noted in their rows if no wave could claim them, and shown in the sentence of a
worker's tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from headrace.pipeline.core.leases.change import note_failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, Terminal
from headrace.pipeline.ports.leases import LeaseStore

Troubles = Mapping[str | None, HeadraceError]
"""By the row's `streamName`: why Kinesis couldn't describe the stream."""


def note_undescribed(
    rows: Iterable[Lease], troubles: Troubles, *, me: str, leases: LeaseStore, when: datetime
) -> None:
    """Note in the rows of a stream that Kinesis can't describe why its shards aren't read.

    Usually the release after a wave notes a failure. Shards of such a stream aren't even claimed, so no wave
    releases them. Each row is written once. A transient error isn't noted: the note would cost a write for each
    shard, and one more wave to remove it. If a write fails, the next tick or wave repeats it.
    """
    undescribed = [row for row in rows if isinstance(troubles.get(row.stream), Terminal)]
    leases.apply_all(
        [note_failure(row, me, str(troubles[row.stream]), when=when) for row in _unnoted(undescribed, me)]
    )


def note_unclaimed(rows: Iterable[Lease], why: str, *, me: str, leases: LeaseStore, when: datetime) -> None:
    """Note in the rows why a run claimed none of them, such as a Spark that didn't start. Each row is written once."""
    leases.apply_all([note_failure(row, me, why, when=when) for row in _unnoted(rows, me)])


def _unnoted(rows: Iterable[Lease], me: str) -> list[Lease]:
    # A row that has a failure keeps it with its time: writing again would cost a write for each
    # shard and tick, and people would no longer see since when the shard fails.
    return [row for row in rows if row.failure is None and row.holder == me and not row.has_ended]


def failing_in_words(mine: Iterable[Lease]) -> str:
    """The failing shards, for the sentence of a worker's tick; empty if there are none."""
    failing = sorted(
        (row.failure.since, row.key, row.failure.why) for row in mine if row.failure and not row.has_ended
    )
    if not failing:
        return ""
    since, key, why = failing[0]
    more = ", ..." if len(failing) > 1 else ""
    return f"{counted(len(failing), 'shard')} failing ({partition_of(key)} since {since:%Y-%m-%d %H:%M:%S} UTC: {why}{more})"
