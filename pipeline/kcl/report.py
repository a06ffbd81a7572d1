"""The metrics in a worker's row, in KCL's form: a list of averages, from what the Spark tasks of the worker's
runs measured.

    tasks -> loads of their hosts -> the run -> every 30 s at most, one more average in the row; the row keeps ten

A KCL worker measures as long as it runs. A Headrace worker measures only during a run, because only then it
is known which hosts work for it. Time without runs adds no average. If no average was added for three
minutes, the metrics are removed from the row, and each leader judges the worker by the throughput of its
leases. If old averages stayed, an idle worker would look as busy as it was in its last run; -1, which KCL
writes where measuring failed, would keep leases away from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from math import fsum

from headrace.pipeline.core.leases.throughput import rounded
from headrace.pipeline.core.leases.worker import Metrics, Worker
from headrace.pipeline.core.ledger.batch import HostLoad
from headrace.pipeline.kcl.metrics import FAILED, REPORT_PERIOD, ema, is_active, is_failing
from headrace.pipeline.kcl.network import utilisation

CPU = "C"
RECEIVED = "NI"
SENT = "NO"
"""KCL's names of the metrics: CPU, network in, network out."""
# The default of KCL's noOfPersistedMetricsPerWorkerMetrics.
_KEPT_AVERAGES = 10
# Longer than a wave: a run reports at the end of a wave, which may take two minutes before it counts as
# hung.
_OUTDATED_AFTER = timedelta(minutes=3)


def is_due(row: Worker | None, now: datetime) -> bool:
    """Whether a new average may be added to the row. That is also so if the newest average is from the future,
    because the clock went back.
    """
    if row is None or row.measured_at is None:
        return True
    return not timedelta(0) <= now - row.measured_at < REPORT_PERIOD


def is_outdated(row: Worker, now: datetime) -> bool:
    """Whether the metrics in the row are too old. Metrics without `measured_at` are of a KCL worker that had
    this id before: they count as too old at once."""
    if row.measured_at is None:
        return bool(row.stats or row.ranges)
    return now - row.measured_at > _OUTDATED_AFTER


def cpu_of(rows: Iterable[Worker], now: datetime) -> dict[str, float]:
    """Worker -> CPU in percent, smoothed, of the workers whose rows have a recent CPU metric that didn't fail."""
    return {
        row.worker_id: ema(row.stats[CPU])
        for row in rows
        if row.stats.get(CPU) and _is_fresh(row, now) and not is_failing(row.stats, row.ranges)
    }


def _is_fresh(row: Worker, now: datetime) -> bool:
    """Whether the metrics in the row are recent. KCL's rows have no time of measuring, but KCL sets
    `last_update` with each average. A Headrace row (it has `instance`) without `measured_at` has no metrics
    of its own."""
    if row.measured_at is not None:
        return not is_outdated(row, now)
    return row.instance is None and row.last_update is not None and is_active(row.last_update, now)


def plan_report(
    row: Worker | None, loads: Iterable[HostLoad], now: datetime, *, most: int, network: float | None = None
) -> Metrics:
    """The row's metrics with one more average over all hosts. `most`: the highest utilisation that is wanted,
    in percent. `network`: the MiB/s that count as 100 %."""
    loads = tuple(loads)
    newest = {CPU: _average([(load.host, load.span, load.cpu) for load in loads])}
    if network is not None:
        for name, samples in (
            (RECEIVED, [(load.host, load.span, load.received) for load in loads]),
            (SENT, [(load.host, load.span, load.sent) for load in loads]),
        ):
            rate = _average(samples)
            # -1 marks a failure and is no rate.
            newest[name] = FAILED if rate == FAILED else rounded(utilisation(rate, network))
    before: Mapping[str, tuple[float, ...]] = {}
    if row is not None and not is_outdated(row, now):
        before = row.stats
    hosts = len({load.host for load in loads})
    return Metrics(
        stats={name: (*before.get(name, ()), value)[-_KEPT_AVERAGES:] for name, value in newest.items()},
        ranges=dict.fromkeys(newest, (most,)),
        measured_by=f"cpu of {hosts} host{'' if hosts == 1 else 's'}",
        # The row keeps whole seconds.
        measured_at=now.replace(microsecond=0),
    )


def _average(samples: Iterable[tuple[str, timedelta, float | None]]) -> float:
    """The mean over time on each host, and then over the hosts. Hosts that couldn't be measured are left out."""
    by_host: dict[str, list[tuple[float, float]]] = {}
    for host, span, value in samples:
        if value is not None:
            by_host.setdefault(host, []).append((span.total_seconds(), value))
    if not by_host:
        return FAILED
    means = [
        fsum(s * v for s, v in host_samples) / fsum(s for s, _ in host_samples)
        for host_samples in by_host.values()
    ]
    return rounded(fsum(means) / len(means))
