"""From where a shard is read whose lease row would be created with the checkpoint LATEST. Pure functions.

rows of the stream                           the new row
none                                         LATEST, with this moment
rows of an earlier life of the stream        TRIM_HORIZON: the processor has read the stream before
rows of this life that share hash keys       TRIM_HORIZON: they are of an ancestor, which has been read
rows of this life that share none            LATEST, with their moment: the first shard sync was cut short, or a late
                                             listing hid the shard
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST, TRIM_HORIZON


def begun_at_latest(new: Lease, rows: Iterable[Lease], now: datetime | None) -> Lease:
    """The new row, whose checkpoint is LATEST, with the beginning that it has to get.

    `rows`: all rows of the application. `now`: by Kinesis's clock; where that isn't known yet, the first claim of
    the row adds it.
    """
    of_stream = [row for row in rows if _name(row) == _name(new)]
    if not of_stream:
        return replace(new, looked_at=now)
    is_later_life = any(_is_of_another_life(row, new) for row in of_stream)
    # Which shard descends from which isn't asked of the listing: a late one hides the shards in between.
    if is_later_life or any(_shares_hash_keys(row, new) for row in of_stream):
        return replace(new, checkpoint=TRIM_HORIZON)
    moment = _first_moment(of_stream)
    return replace(new, checkpoint=TRIM_HORIZON) if moment is None else replace(new, looked_at=moment)


def _name(row: Lease) -> str | None:
    return None if row.stream is None else row.stream.rpartition(":")[0]


def _is_of_another_life(row: Lease, new: Lease) -> bool:
    # A row that another program has made has no epoch, and counts as one of this life.
    return row.stream != new.stream or row.stream_epoch not in {None, new.stream_epoch}


def _shares_hash_keys(row: Lease, new: Lease) -> bool:
    if row.hash_range is None or new.hash_range is None:
        return True
    return row.hash_range.start <= new.hash_range.end and new.hash_range.start <= row.hash_range.end


def _first_moment(rows: Collection[Lease]) -> datetime | None:
    """The earliest moment from which a row at LATEST is read; None where no row tells."""
    return min(
        (row.looked_at for row in rows if row.checkpoint == LATEST and row.looked_at is not None),
        default=None,
    )
