"""How far behind a shard is, as its lease row tells. For people and alarms; no decision about reading goes by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.core.leases.lease import Lease

_NOTHING: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class LongestLag:
    """The longest of many lags. Shards whose lag isn't known may be further behind, so that nobody may read 0 as "all is read"
    while there are such shards."""

    known: timedelta | None
    """None where no lag is known."""
    unknown: int = 0
    """Shards whose lag isn't known."""

    @property
    def is_nothing(self) -> bool:
        """Whether it is known that no shard is behind."""
        return not self.unknown and not self.known

    @property
    def seconds(self) -> float | None:
        """The longest lag in seconds. For a figure; None where it would be a 0 that isn't known."""
        return None if self.known is None or (self.unknown and not self.known) else self.known.total_seconds()


def longest(lags: Iterable[timedelta | None]) -> LongestLag:
    """The longest of these lags. Without any shard, nothing is behind."""
    told = list(lags)
    known = [lag for lag in told if lag is not None]
    return LongestLag(max(known, default=None if told else _NOTHING), len(told) - len(known))


def lag_of(
    row: Lease, now: datetime, *, is_read: bool = True, waiting_since: datetime | None = None
) -> timedelta | None:
    """How long ago the shard's oldest unread record may have arrived, at most; None where the row doesn't tell.

    `is_read`: whether a worker that may be alive reads the shard. Such a worker looks for new records in a shard that was at its
    tip, so that the shard isn't behind; nobody looks into one without such a worker. `waiting_since`: since when a shard that was
    at its tip has been seen to have unread records all the same. They may have come long after the last look.
    """
    if row.has_ended:
        return _NOTHING
    if row.looked_at is None:
        # Never read. Its worker should have begun once it had the lease; KCL's workers write none of the three times.
        return None if row.assigned_at is None else max(_NOTHING, now - row.assigned_at)
    # A worker that lives looks for records in a shard that was at its tip. Without this an idle
    # shard would seem to fall behind by the age of its last look.
    if is_read and not row.behind_ms and row.failure is None:
        return _NOTHING if waiting_since is None else max(_NOTHING, now - waiting_since)
    return max(_NOTHING, now - row.looked_at)


def open_lags(
    rows: Iterable[Lease],
    now: datetime,
    *,
    readers: Collection[str],
    waiting_since: Mapping[str, datetime] | None = None,
) -> dict[str, timedelta | None]:
    """The lag of each open shard, by lease key. `readers`: the workers that may be alive."""
    open_rows = {row.key: row for row in rows if not row.has_ended}
    return {
        key: _NOTHING
        if _waits_for_parents(row, open_rows)
        else lag_of(row, now, is_read=row.holder in readers, waiting_since=(waiting_since or {}).get(key))
        for key, row in open_rows.items()
    }


def _waits_for_parents(row: Lease, open_rows: Mapping[str, Lease]) -> bool:
    """Whether its parents have to be read to the end first: how far behind the shard is then is the parents' lag."""
    return row.looked_at is None and not row.parent_keys.isdisjoint(open_rows)
