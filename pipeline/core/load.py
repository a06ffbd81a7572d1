"""How much a shard carries, as its row says it: the rate at which its records arrived, not at which they were read.

A shard at rest isn't written, so that its row keeps the last rate. Whoever reads the row lets the rate fade by the row's age
(`rate_now`), and a wave that finds nothing writes the faded one, with the write that it makes anyway (`rate_after_quiet`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from pipeline.core.batch import Staged
from pipeline.core.lease import Lease

_ALPHA = 0.5
_KB = 1024
_SHORTEST = timedelta(seconds=1)
"""A burst within a moment is no rate."""
_LONGEST_PAUSE = timedelta(minutes=1)
"""Of the quiet before the first record, as much counts: else the first page after a night looks like nothing."""
_HALVES_IN = timedelta(minutes=1)
"""A rate without records, after a first minute. KCL halves it at each renewal (3 s), which needs a write each time; and a shard that
gets a record now and then must not look idle between two of them."""
_MICRO = Decimal("0.000001")
_MOST = Decimal(10**9)
"""KB/s, a million times what Kinesis takes in on one shard. A row that says more says nothing of use."""


def believable(kbps: Decimal) -> float | None:
    """A row's throughput, or None: a row that tells nonsense counts as one that was never measured.

    The number is a hint that weighs leases against each other. KCL's Java can write NaN or Infinity into it, and one such
    row must neither hide its shard nor upset the sums over all the others.
    """
    return float(kbps) if kbps.is_finite() and 0 <= kbps <= _MOST else None


def throughput(previous: float | None, read: int, span: timedelta) -> float:
    """KB/s as the row keeps them: half of what was known, half of what was read, which arrived within `span`."""
    now = read / _KB / max(span, _SHORTEST).total_seconds()
    return rounded(now if previous is None else _ALPHA * now + (1 - _ALPHA) * previous)


def rate_now(row: Lease, now: datetime) -> float | None:
    """The row's throughput, less what it lost while nobody wrote it: the shard was at its tip then, and nobody reads it now."""
    if row.looked_at is None or row.behind_ms or row.run_claim is not None:
        return row.throughput_kbps
    return _faded(row.throughput_kbps, now - row.looked_at - _LONGEST_PAUSE)


def rate_at_beat(row: Lease, now: datetime, *, since: timedelta) -> float | None:
    """What a beat of the lease itself writes, for readers of KCL's kind; None: nothing has changed. `since`: the last beat."""
    rate = row.throughput_kbps
    return _faded(rate, since) if rate and rate_now(row, now) != rate else None


def rate_after_quiet(row: Lease, staged: Staged, now: datetime) -> float | None:
    """What a wave that found nothing writes as it lets the row go; None: nothing has changed. `now`: when it looked."""
    if not row.throughput_kbps or row.looked_at is None or staged.rows or not staged.at_tip:
        return None
    arrival = staged.upto.arrival
    since = row.looked_at if arrival is None else max(row.looked_at, arrival + _LONGEST_PAUSE)
    faded = _faded(row.throughput_kbps, now - since)
    return None if faded == row.throughput_kbps else faded


def _faded(rate: float | None, quiet: timedelta) -> float | None:
    if rate is None or quiet <= timedelta(0):
        return rate
    return rounded(rate * 0.5 ** (quiet / _HALVES_IN))


def throughput_after(row: Lease, staged: Staged) -> float | None:
    """What to write with this batch's checkpoint; None: nothing was read."""
    first, last = staged.first_arrival, staged.last_arrival
    if not staged.rows or first is None or last is None:
        return None
    span = last - first
    if staged.after is not None and staged.after.arrival is not None:
        # A record every ten seconds spans no time by itself: the pause before it is part of its rate.
        span = max(span, min(last - staged.after.arrival, _LONGEST_PAUSE))
    previous = row.throughput_kbps
    if row.looked_at is not None and not row.behind_ms:
        previous = _faded(previous, first - row.looked_at - _LONGEST_PAUSE)
    return throughput(previous, staged.bytes, span)


def rounded(number: float) -> float:
    """Half up, to six places: as many as the row keeps."""
    return float(Decimal(repr(number)).quantize(_MICRO, ROUND_HALF_UP))
