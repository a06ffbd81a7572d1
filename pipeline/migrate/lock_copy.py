"""The leader's lock, as the move to one table gives it to the lease table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.leases.election import LockRow

_KEPT: Final = timedelta(seconds=120)


def copied_lock(lock: LockRow) -> LockRow:
    """The same lock of the same leader. The leader sees the new table up to a minute later, and beats the lock there from
    then on. Until then nobody else may take it for dead, whatever its own duration was: two minutes, KCL's default."""
    return replace(lock, duration=max(lock.duration, _KEPT))
