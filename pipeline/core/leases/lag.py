"""How far behind a shard is, as its lease row tells. For people and alarms; no decision about reading depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker

_NOTHING: Final = timedelta(0)
LOOKED_WITHIN: Final = timedelta(minutes=1)
"""The time in which a living worker has looked into each of its shards: it probes the idle ones each 15 s."""


@dataclass(frozen=True, slots=True)
class LivingWorker:
    """A worker that may be alive, and from when on."""

    back_since: datetime | None = None
    """Since when it has ticked without a pause, if that is less than `LOOKED_WITHIN`; else None."""
    is_ours: bool = True
    """Whether it is a worker of Headrace. KCL's workers tell in no row that they have looked into a shard."""


A_LIVING_WORKER: Final = LivingWorker()
LivingWorkers = Mapping[str, LivingWorker]
"""The workers that may be alive, by their id."""


@dataclass(frozen=True, slots=True)
class LongestLag:
    """The longest lag of many shards. Shards of unknown lag may be further behind, so while there are any, a lag
    of 0 must not be read as "all is read".
    """

    known: timedelta | None
    """None where no lag is known."""
    unknown: int = 0
    """Shards whose lag isn't known."""

    @property
    def is_nothing(self) -> bool:
        """Whether it is known of each shard that it isn't behind."""
        return not self.unknown and not self.known

    @property
    def seconds(self) -> float | None:
        """The longest lag in seconds, as a figure; None where it would be 0 although some lags are unknown."""
        return None if self.known is None or (self.unknown and not self.known) else self.known.total_seconds()


def longest(lags: Iterable[timedelta | None]) -> LongestLag:
    """The longest of these lags; 0 where there is no shard."""
    told = list(lags)
    known = [lag for lag in told if lag is not None]
    return LongestLag(max(known, default=None if told else _NOTHING), len(told) - len(known))


def readers_among(alive: Iterable[str], rows: Iterable[Worker]) -> LivingWorkers:
    """The workers that may be alive, as readers of shards. `alive`: their names; `rows`: the rows of all workers."""
    known = {row.worker_id: LivingWorker(_back_since(row), row.is_ours) for row in rows}
    return {name: known.get(name, LivingWorker(is_ours=False)) for name in alive}


def _back_since(row: Worker) -> datetime | None:
    # Both times are by one host's clock, so that it doesn't matter how the looker's clock goes.
    if (
        row.ticked_at is None
        or row.ticking_since is None
        or row.ticked_at - row.ticking_since >= LOOKED_WITHIN
    ):
        return None
    return row.ticking_since


def lag_of(
    row: Lease,
    now: datetime,
    *,
    reader: LivingWorker | None = A_LIVING_WORKER,
    waiting_since: datetime | None = None,
) -> timedelta | None:
    """How long ago the shard's oldest unread record may have arrived, at most; None where the row doesn't tell.

    `reader`: the worker that reads the shard, if one may be alive. A worker of Headrace looks for new records in
    a shard that was at its tip, so that the shard isn't behind; nobody looks into a shard without a reader, and
    KCL's workers write nothing before they checkpoint. `waiting_since`: since when a shard that was at its tip is
    known to have unread records. They may have arrived long after the last look.
    """
    if row.has_ended:
        return _NOTHING
    if row.looked_at is None:
        # Never read. Its worker should have begun once it had the lease; KCL's workers write none of the three times.
        return None if row.assigned_at is None else max(_NOTHING, now - row.assigned_at)
    if is_read_by_others(row):
        return None
    # A worker that lives looks for records in a shard that was at its tip. Without this an idle
    # shard would seem to fall behind by the age of its last look.
    if reader is not None and not row.behind_ms and row.failure is None:
        if waiting_since is not None:
            return max(_NOTHING, now - waiting_since)
        return None if _may_be_unseen(row, row.looked_at, now, reader) else _NOTHING
    return max(_NOTHING, now - row.looked_at)


def _may_be_unseen(row: Lease, looked_at: datetime, now: datetime, reader: LivingWorker) -> bool:
    """Whether there may be records that nobody of Headrace has looked for: the shard's worker is one of KCL, is back only just
    now, or has only just got the lease."""
    if not reader.is_ours or (reader.back_since is not None and looked_at < reader.back_since):
        return True
    assigned = row.assigned_at
    return assigned is not None and looked_at < assigned and now - assigned < LOOKED_WITHIN


def is_read_by_others(row: Lease) -> bool:
    """Whether a KCL worker has moved the checkpoint since Headrace last looked into the shard, so that this last
    look says nothing any more. KCL's workers leave Headrace's attributes in the row.
    """
    return row.landed is not None and row.checkpoint != row.landed


def open_lags(
    rows: Iterable[Lease],
    now: datetime,
    *,
    readers: LivingWorkers,
    waiting_since: Mapping[str, datetime] | None = None,
) -> dict[str, timedelta | None]:
    """The lag of each open shard, by lease key."""
    open_rows = {row.key: row for row in rows if not row.has_ended}
    return {
        key: _NOTHING
        if _waits_for_parents(row, open_rows)
        else lag_of(
            row,
            now,
            reader=readers.get(row.holder or ""),
            waiting_since=(waiting_since or {}).get(key),
        )
        for key, row in open_rows.items()
    }


def _waits_for_parents(row: Lease, open_rows: Mapping[str, Lease]) -> bool:
    """Whether its parents have to be read to the end first: how far behind the shard is then is the parents' lag."""
    return row.looked_at is None and not row.parent_keys.isdisjoint(open_rows)
