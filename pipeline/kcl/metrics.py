"""The metrics in a worker's row, and whether lease assignment may rely on them.

KCL's attributes: sts = stats (metric -> the last averages, oldest first), opr = ranges (metric -> a list
whose first number is the highest utilisation that is wanted), lut = last update. All utilisations are
percent, as in the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

Stats = Mapping[str, Sequence[float]]
Ranges = Mapping[str, Sequence[float]]

FAILED = -1.0
"""Stands in `stats` for an interval in which the worker couldn't measure."""
REPORT_PERIOD = timedelta(seconds=30)
"""The default of KCL's workerMetricsReporterFreqInMillis."""
ALPHA = 0.5
"""The default of KCL's workerMetricsEMAAlpha."""
# A worker whose row has this metric counts as a worker without metrics.
_SYNTHETIC = "THROUGHPUT"


def measures_nothing(stats: Stats | None, ranges: Ranges | None) -> bool:
    """Whether the worker has no metrics. KCL judges such a worker by the throughput of its leases."""
    return (not stats and not ranges) or _SYNTHETIC in (stats or {})


def is_valid(last_update: object | None, stats: Stats | None, ranges: Ranges | None) -> bool:
    if last_update is None:
        return False
    if measures_nothing(stats, ranges):
        return True
    if stats is None or ranges is None:
        return False
    # As in KCL, an operating range that is empty or begins with 0 makes the whole row invalid.
    return all(name in ranges for name in stats) and all(limits and limits[0] for limits in ranges.values())


def is_failing(stats: Stats | None, ranges: Ranges | None) -> bool:
    """Whether the newest value of some metric is a failure. Such a worker keeps its leases and is given no others."""
    if measures_nothing(stats, ranges):
        return False
    return any(values and values[-1] == FAILED for values in (stats or {}).values())


def is_active(last_update: datetime, now: datetime, period: timedelta = REPORT_PERIOD) -> bool:
    """Whether the worker reported lately. As in KCL, one report may be late by a whole period."""
    return now - last_update <= 2 * period


def is_stale(last_update: datetime, now: datetime, after: timedelta = timedelta(days=1)) -> bool:
    """Whether the row is so old that the leader deletes it. The default is KCL's
    staleWorkerMetricsEntryCleanupDuration."""
    return now - last_update > after


def ema(values: Iterable[float], alpha: float = ALPHA) -> float:
    """The exponential moving average of the values that didn't fail, oldest first; 0 if there is none."""
    average: float | None = None
    for value in values:
        if value != FAILED:
            average = value if average is None else alpha * value + (1 - alpha) * average
    return 0.0 if average is None else average
