"""The row of the leader's lock that the move to one table puts into the lease table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.leases.election import LockRow

_KEPT: Final = timedelta(seconds=120)


def copied_lock(lock: LockRow) -> LockRow:
    """The same lock of the same leader, as a new row. The leader sees the new table up to a minute later, and
    beats the lock there from then on. Until then no other process may take the leader for dead, so the row's
    duration is two minutes, KCL's default, whatever it was before.
    """
    return replace(lock, duration=max(lock.duration, _KEPT))
