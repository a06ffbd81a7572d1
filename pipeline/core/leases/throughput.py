"""The throughput of a shard, as its lease row keeps it: the rate at which records arrived, not at which they were read.

The row of a quiet shard isn't written, so it keeps the last rate. The leader therefore lowers the rate by the row's age
when it reads the row (`rate_now`). A wave that finds the shard quiet lowers the rate in the row, in a write that the
wave makes anyway (`rate_after_quiet`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Staged

_ALPHA = 0.5
"""The weight of the newest figure in the exponential average, as in KCL."""
_KB = 1024
_SHORTEST_SPAN = timedelta(seconds=1)
"""Records that arrive within less than this count as if they took this long, so that one burst isn't a huge rate."""
_LONGEST_PAUSE = timedelta(minutes=1)
"""Up to this much of the quiet time before the first record counts. With all of it, the first page after a quiet night
would look like almost no traffic."""
_HALVES_IN = timedelta(minutes=1)
"""How fast the rate of a shard without records falls, after a first minute. KCL halves it at each lease renewal, about
every 3 s, which needs a write each time; and a shard that gets a record now and then would look idle in between."""
_MICRO = Decimal("0.000001")
_HIGHEST = Decimal(10**9)
"""KB/s, a million times what Kinesis accepts on one shard."""


def believable(kbps: Decimal) -> float | None:
    """The throughput that a row states; None where the number makes no sense, as for a shard that was never
    measured.
    """
    # KCL's Java can write NaN or Infinity. One such row must neither hide its shard nor spoil sums over other shards.
    return float(kbps) if kbps.is_finite() and 0 <= kbps <= _HIGHEST else None


def throughput(previous: float | None, read: int, span: timedelta) -> float:
    """The new rate in KB/s: the mean of the previous rate and of the rate of the bytes just read, which arrived
    within `span`.
    """
    rate = read / _KB / max(span, _SHORTEST_SPAN).total_seconds()
    return rounded(rate if previous is None else _ALPHA * rate + (1 - _ALPHA) * previous)


def rate_now(row: Lease, now: datetime) -> float | None:
    """The row's rate, lowered for the time in which the shard was quiet and its row wasn't written."""
    # A shard that was left behind its tip has records to read, and a claimed one is being read: neither is quiet.
    if row.looked_at is None or row.behind_ms or row.run_claim is not None:
        return row.throughput_kbps
    return _faded(row.throughput_kbps, now - row.looked_at - _LONGEST_PAUSE)


def rate_at_beat(row: Lease, now: datetime, *, since: timedelta) -> float | None:
    """The rate that a beat of the lease row writes, for KCL's leader to see; None where it hasn't changed. `since`: the
    time between two beats."""
    rate = row.throughput_kbps
    return _faded(rate, since) if rate and rate_now(row, now) != rate else None


def rate_after_quiet(row: Lease, staged: Staged, now: datetime) -> float | None:
    """The rate that a wave writes when it releases the row of a quiet shard; None where it hasn't changed. `now`: when
    the wave found the shard quiet."""
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
    """The rate that is written with the checkpoint of what was staged; None where no record was staged."""
    first, last = staged.first_arrival, staged.last_arrival
    if not staged.rows or first is None or last is None:
        return None
    span = last - first
    if staged.after is not None and staged.after.arrival is not None:
        # A single record spans no time, so the time since the record before it counts.
        span = max(span, min(last - staged.after.arrival, _LONGEST_PAUSE))
    previous = row.throughput_kbps
    if row.looked_at is not None and not row.behind_ms:
        previous = _faded(previous, first - row.looked_at - _LONGEST_PAUSE)
    return throughput(previous, staged.bytes, span)


def rounded(number: float) -> float:
    """Rounded half up to six decimal places, which is what the row keeps."""
    return float(Decimal(repr(number)).quantize(_MICRO, ROUND_HALF_UP))
