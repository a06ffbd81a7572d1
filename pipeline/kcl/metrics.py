"""Worker metrics as the assignment reads them: is a row to be believed, and what does it say?

KCL's wire names: sts = stats (metric -> last averages, oldest first), opr = ranges (metric -> highest utilisation
in percent first), lut = last update. Percents stay percents here: they are compared with what the rows say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

Stats = Mapping[str, Sequence[float]]
Ranges = Mapping[str, Sequence[float]]

FAILED = -1.0
"""Stands in `stats` for an interval in which nothing could be measured."""
REPORT_PERIOD = timedelta(seconds=30)
"""KCL's workerMetricsReporterFreqInMillis."""
ALPHA = 0.5
"""KCL's workerMetricsEMAAlpha."""
_SYNTHETIC = "THROUGHPUT"
"""A row that names this metric counts as one without metrics of its own."""


def has_none(stats: Stats | None, ranges: Ranges | None) -> bool:
    """A worker that measures nothing ("default metric"): it is judged by the throughput of its leases."""
    return (not stats and not ranges) or _SYNTHETIC in (stats or {})


def is_valid(last_update: object | None, stats: Stats | None, ranges: Ranges | None) -> bool:
    if last_update is None:
        return False
    if has_none(stats, ranges):
        return True
    if stats is None or ranges is None:
        return False
    return all(name in ranges for name in stats) and all(limits and limits[0] for limits in ranges.values())


def is_failing(stats: Stats | None, ranges: Ranges | None) -> bool:
    """The last interval of some metric failed: such a worker is given nothing, and keeps what it has."""
    if has_none(stats, ranges):
        return False
    return any(values and values[-1] == FAILED for values in (stats or {}).values())


def is_active(last_update: datetime, now: datetime, period: timedelta = REPORT_PERIOD) -> bool:
    return now - last_update <= 2 * period


def is_stale(last_update: datetime, now: datetime, after: timedelta = timedelta(days=1)) -> bool:
    """Old enough for the leader to delete the row."""
    return now - last_update > after


def ema(values: Iterable[float], alpha: float = ALPHA) -> float:
    """The exponential moving average, oldest first, over the intervals that didn't fail; 0 where all did."""
    average: float | None = None
    for value in values:
        if value != FAILED:
            average = value if average is None else alpha * value + (1 - alpha) * average
    return 0.0 if average is None else average
