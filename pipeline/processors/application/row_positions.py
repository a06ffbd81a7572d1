"""Lease rows as positions: where the reading of each shard goes on, by the checkpoint in its row alone. Pure functions.

the row's checkpoint          the position                               reading
TRIM_HORIZON, AT_TIMESTAMP    none                                       from the stream's start in the settings
LATEST                        a start, the moment in the row             from then on
a sequence number             after that user record                     the rest of its Kinesis record first
SHARD_END                     ended, with the children in the row        none
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Start
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.model import StreamSettings

Arrivals = Mapping[tuple[ShardKey, int], datetime]
"""When records arrived, by shard and sequence number."""


def position_of(row: Lease, key: ShardKey, arrivals: Arrivals, now: datetime) -> Position | None:
    checkpoint = row.checkpoint
    if checkpoint.is_end:
        # Children are judged for lost records from then on.
        seen = row.looked_at if _is_of_headrace(row) else None
        return Position(ended=True, children=tuple(sorted(row.children)), seen=seen)
    if checkpoint.is_digits:
        sequence = int(checkpoint.sequence)
        return Position(
            sequence,
            checkpoint.sub,
            # A checkpoint may stand at a user record in the middle of an aggregate.
            inside=True,
            arrival=arrivals.get((key, sequence)),
            # Of the row as Headrace left it. Where another program has moved it on since, this is earlier than needed.
            seen=row.looked_at if _is_of_headrace(row) else None,
        )
    if checkpoint == LATEST:
        # A row without the moment was never claimed (`headrace.pipeline.processors.application.claimed_rows`).
        since = row.looked_at or now
        return Position(start=Start(since), seen=since)
    return None


def _is_of_headrace(row: Lease) -> bool:
    return row.landed is not None and row.landed <= row.checkpoint


def unknown_arrivals(rows: Mapping[ShardKey, Lease], arrivals: Arrivals) -> dict[ShardKey, int]:
    """For those of these rows whose record's arrival time nothing tells: the sequence number of the record.
    Without the arrival time, lost records couldn't be distinguished from records that never existed.
    """
    return {
        key: sequence
        for key, row in rows.items()
        if row.checkpoint.is_digits
        and (key, sequence := int(row.checkpoint.sequence)) not in arrivals
        and not (_is_of_headrace(row) and row.looked_at is not None)
    }


def origin_of(settings: StreamSettings, rows: Iterable[Lease], now: datetime) -> Origin:
    """Where the reading of shards without a checkpoint begins. `rows`: those of all lives of the stream."""
    # Decided anew each time: what has left the stream before its shard was first read doesn't count as lost.
    match settings.initial_position:
        case InitialPosition.TRIM_HORIZON:
            return Origin(TRIM, now)
        case InitialPosition.AT_TIMESTAMP:
            return Origin(Start(settings.timestamp), now)
        case InitialPosition.LATEST:
            # Only the first shards begin at the newest record: a row that is made later is that of a child, or of a
            # later life, which is read from its beginning.
            is_first = not any(True for _ in rows)
            return Origin(Start(now.replace(microsecond=0)) if is_first else TRIM, now)
