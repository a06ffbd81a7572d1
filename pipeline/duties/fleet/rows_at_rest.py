"""Which of a worker's rows are known already, so that a tick needn't read them again.

A worker is at rest while no run of it is open and none of its rows is claimed, handed over or due. Then only the leader
and a person change its rows. A lease that the leader gives or takes away is seen at each tick, because the index of
owners shows it; any other change, such as a person's `headrace reposition`, is seen once the rows are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.lease import Lease

_TICKS = 2.5
"""Rows that were read are known for so many ticks: every third tick reads them, even if it comes somewhat early."""


@dataclass(frozen=True, slots=True)
class KnownRows:
    rows: Mapping[str, Lease] = field(default_factory=dict)
    """By lease key."""
    read: datetime | None = None

    def at(self, now: datetime, *, tick: timedelta) -> KnownRows:
        """The known rows, if they are recent enough to be used; none if they were read too long ago."""
        return KnownRows() if is_time(self.read, now, every=tick * _TICKS) else self

    def after(self, rows: Iterable[Lease], now: datetime) -> KnownRows:
        """The rows that the next tick needn't read if nothing happens. `rows`: all rows of the worker, some of
        which were known before this tick.
        """
        return KnownRows({row.key: row for row in rows}, self.read or now)
