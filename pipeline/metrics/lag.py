"""How far behind a shard is, as its lease row tells. For metrics and probes; no decision about reading goes by it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.core.leases.lease import Lease

_NOTHING: Final = timedelta(0)


def lag_of(row: Lease, now: datetime) -> timedelta:
    """How long ago the shard's oldest unread record may have arrived, at most. Zero for a shard that was at its tip when it was last
    read: the workers' sensors look for new records in it."""
    if row.looked_at is None or not (row.behind_ms or row.failure is not None):
        return _NOTHING
    return max(_NOTHING, now - row.looked_at)
