"""How much a shard carries, as its row says it: the rate at which its records arrived, not at which they were read."""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal

from pipeline.core.batch import Staged

_ALPHA = 0.5
_KB = 1024
_SHORTEST = timedelta(seconds=1)
"""A burst within a moment is no rate."""
_LONGEST_PAUSE = timedelta(minutes=1)
"""Of the quiet before the first record, as much counts: else the first page after a night looks like nothing."""
_MICRO = Decimal("0.000001")


def throughput(previous: float | None, read: int, span: timedelta) -> float:
    """KB/s as the row keeps them: half of what was known, half of what was read, which arrived within `span`."""
    now = read / _KB / max(span, _SHORTEST).total_seconds()
    return rounded(now if previous is None else _ALPHA * now + (1 - _ALPHA) * previous)


def throughput_after(previous: float | None, staged: Staged) -> float | None:
    """What to write with this batch's checkpoint; None: nothing was read, which is no reason to forget."""
    first, last = staged.first_arrival, staged.last_arrival
    if not staged.rows or first is None or last is None:
        return None
    span = last - first
    if staged.after is not None and staged.after.arrival is not None:
        # A record every ten seconds spans no time by itself: the pause before it is part of its rate.
        span = max(span, min(last - staged.after.arrival, _LONGEST_PAUSE))
    return throughput(previous, staged.bytes, span)


def rounded(number: float) -> float:
    """Half up, to KCL's six places."""
    return float(Decimal(repr(number)).quantize(_MICRO, ROUND_HALF_UP))
