"""A worker's metrics as its row tells them: KCL's list of averages, made from what the tasks of its runs measured.

    tasks -> loads of hosts -> a run -> every 30 s at most -> one more average in the row, ten at most

KCL's workers measure for as long as they live. Ours do while a run of theirs is at work, for only then it is known which hosts
they work on. So a stretch without runs adds nothing, and a list to which nothing was added for long is taken back: the row then
is one without metrics, whoever reads it, and the worker is judged by the throughput of its leases. Old averages would make an
idle worker look as busy as it was last; -1, as KCL writes where measuring failed, would keep leases away from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from math import fsum

from pipeline.core.batch import HostLoad
from pipeline.core.load import rounded
from pipeline.core.worker import Metrics, Worker
from pipeline.kcl.metrics import FAILED, REPORT_PERIOD, ema, is_active, is_failing
from pipeline.kcl.network import utilisation

CPU = "C"
RECEIVED = "NI"
SENT = "NO"
_MOST = 10
"""KCL's noOfPersistedMetricsPerWorkerMetrics."""
_OLD = timedelta(minutes=3)
"""A wave may take two minutes before it counts as hung, and reports only then."""


def is_due(row: Worker | None, now: datetime) -> bool:
    """Whether the row may be added to. A clock that went back makes it due: better once too often."""
    if row is None or row.measured_at is None:
        return True
    return not timedelta(0) <= now - row.measured_at < REPORT_PERIOD


def is_outdated(row: Worker, now: datetime) -> bool:
    """Whether the metrics speak of a past that is over: ours by their age; KCL's, if one of its workers had this id before."""
    if row.measured_at is None:
        return bool(row.stats or row.ranges)
    return now - row.measured_at > _OLD


def cpu_of(rows: Iterable[Worker], now: datetime) -> dict[str, float]:
    """Percent, smoothed, of the workers whose rows say it and may be believed."""
    return {
        row.worker_id: ema(row.stats[CPU])
        for row in rows
        if row.stats.get(CPU) and _is_fresh(row, now) and not is_failing(row.stats, row.ranges)
    }


def _is_fresh(row: Worker, now: datetime) -> bool:
    """KCL's rows don't say when they were measured, but get a stamp with each average."""
    if row.measured_at is not None:
        return not is_outdated(row, now)
    return row.instance is None and row.last_update is not None and is_active(row.last_update, now)


def plan_report(
    row: Worker | None, loads: Iterable[HostLoad], now: datetime, *, most: int, network: float | None = None
) -> Metrics:
    """The row's metrics with one more average, over the hosts. `most`: percent; `network`: MiB/s that count as 100 %."""
    loads = tuple(loads)
    newest = {CPU: _average([(load.host, load.span, load.cpu) for load in loads])}
    if network is not None:
        for name, found in (
            (RECEIVED, [(load.host, load.span, load.received) for load in loads]),
            (SENT, [(load.host, load.span, load.sent) for load in loads]),
        ):
            rate = _average(found)
            newest[name] = FAILED if rate == FAILED else rounded(utilisation(rate, network))
    before: Mapping[str, tuple[float, ...]] = {}
    if row is not None and not is_outdated(row, now):
        before = row.stats
    hosts = len({load.host for load in loads})
    return Metrics(
        stats={name: (*before.get(name, ()), value)[-_MOST:] for name, value in newest.items()},
        ranges=dict.fromkeys(newest, (most,)),
        measured_by=f"cpu of {hosts} host{'' if hosts == 1 else 's'}",
        measured_at=now.replace(microsecond=0),
    )


def _average(found: Iterable[tuple[str, timedelta, float | None]]) -> float:
    """Over time on each host, then over the hosts; those that couldn't be measured are left out."""
    by_host: dict[str, list[tuple[float, float]]] = {}
    for host, span, value in found:
        if value is not None:
            by_host.setdefault(host, []).append((span.total_seconds(), value))
    if not by_host:
        return FAILED
    means = [fsum(s * v for s, v in each) / fsum(s for s, _ in each) for each in by_host.values()]
    return rounded(fsum(means) / len(means))
