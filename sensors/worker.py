"""A worker's clock: beat, see what is due, ask for one run."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import dagster as dg

from assets.names import records_key, slug
from assets.records import RecordsConfig
from pipeline.clock import SystemClock, SystemIds
from pipeline.core.stream import StreamId
from pipeline.duties.due_rows import PROBES_A_TICK
from pipeline.duties.streams import asked_by
from pipeline.duties.taking import Taking
from pipeline.duties.worker_tick import WorkerDuty, WorkerMemory, WorkerReport
from pipeline.errors import TablesMissing, Transient
from pipeline.ports import ShardSource, StreamFacts
from pipeline.settings import Settings
from pipeline.settings_choices import Mode
from resources.lease_tables import LeaseTablesResource
from resources.runs import LATER_TAG, WORKER_TAG, DagsterRuns, instance_id
from resources.stream import StreamResource
from sensors.cursor import Kept, read_worker, write_worker
from sensors.leader import INTERVAL
from sensors.once import alone
from sensors.partitions import missing_partitions

_FACTS_LIVE = 60.0
"""Seconds."""


def build_worker(settings: Settings, worker_id: str, job: Any) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"worker_{slug(worker_id)}",
        job=job,
        minimum_interval_seconds=INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=__doc__,
    )
    def worker(
        context: dg.SensorEvaluationContext, lease_tables: LeaseTablesResource, stream: StreamResource
    ) -> dg.SensorResult:
        with alone(f"worker {worker_id} of {settings.application}") as free:
            if not free:
                said = f"worker {worker_id}: the tick before is still at work"
                return dg.SensorResult(skip_reason=said, cursor=context.cursor)
            return _tick(context, settings, _duty(context, settings, worker_id, lease_tables, stream))

    return worker


def _duty(
    context: dg.SensorEvaluationContext,
    settings: Settings,
    worker_id: str,
    lease_tables: LeaseTablesResource,
    stream: StreamResource,
) -> WorkerDuty:
    known = _KNOWN.setdefault(f"{settings.application}/{worker_id}", _Known(stream.source()))
    return WorkerDuty(
        worker_id=worker_id,
        instance=instance_id(context.instance),
        leases=lease_tables.leases(),
        workers=lease_tables.workers(),
        source=known.source,
        runs=DagsterRuns(context.instance),
        clock=SystemClock(),
        times=settings.times,
        lock=lease_tables.lock(),
        heartbeat=settings.coordination.heartbeat,
        taking=_taking(settings, worker_id, lease_tables),
        joined=settings.is_shared,
        stream=lambda row: known.facts(asked_by(settings, row)),
    )


def _taking(settings: Settings, worker_id: str, lease_tables: LeaseTablesResource) -> Taking | None:
    if settings.coordination.mode is Mode.OWN:
        return None
    return Taking(
        me=worker_id,
        leases=lease_tables.leases(),
        clock=SystemClock(),
        ids=SystemIds(),
        settings=settings,
        tables=lease_tables.tables(),
        workers=lease_tables.workers(),
    )


@dataclass(slots=True)
class _Known:
    """Kept between ticks of one process to save calls: shard iterators, and what streams these are."""

    source: ShardSource
    _facts: dict[str, tuple[StreamFacts, float]] = field(default_factory=dict)
    """By name, each with the moment until which it is believed."""

    def facts(self, name: str) -> tuple[StreamId, timedelta]:
        now = time.monotonic()
        found, until = self._facts.get(name, (None, 0.0))
        if found is None or now > until:
            self._facts.pop(name, None)
            found = self.source.describe(name)
            self._facts[name] = (found, now + _FACTS_LIVE)
        return found.stream, found.retention


_KNOWN: dict[str, _Known] = {}
_KEPT: Kept[WorkerMemory] = Kept()


def _tick(context: dg.SensorEvaluationContext, settings: Settings, duty: WorkerDuty) -> dg.SensorResult:
    name = f"{settings.application}/{duty.worker_id}"
    try:
        report = duty.tick(_KEPT.get(name, context.cursor) or read_worker(context.cursor))
    except Transient as error:
        return dg.SensorResult(skip_reason=f"worker {duty.worker_id}: {error}", cursor=context.cursor)
    except TablesMissing as error:
        # At the first start of an application the leader's tick makes them a moment later.
        return dg.SensorResult(skip_reason=f"worker {duty.worker_id}: {error}", cursor=context.cursor)
    _report_dead(context, report)
    if report.alarm is not None:
        context.log.error(report.alarm)
    cursor = _KEPT.put(name, write_worker(report.memory), report.memory)
    partitions = missing_partitions(context, settings, report.partitions)
    if report.due:
        requests = [_request(settings, duty.worker_id, report)]
        return dg.SensorResult(run_requests=requests, cursor=cursor, dynamic_partitions_requests=partitions)
    return dg.SensorResult(skip_reason=str(report), cursor=cursor, dynamic_partitions_requests=partitions)


def _request(settings: Settings, worker_id: str, report: WorkerReport) -> dg.RunRequest:
    op = "__".join(records_key(settings).path)
    config = RecordsConfig(
        worker=worker_id,
        over=list(report.over),
        later=list(report.later),
        due=[due.lease_key for due in report.due[:PROBES_A_TICK]],
        recovering=sorted(report.memory.backoff.keys() - set(report.later)),
    )
    return dg.RunRequest(
        run_key=f"{settings.application}/{worker_id}/after/{report.latest_run or 'nothing'}",
        run_config=dg.RunConfig(ops={op: config}),
        tags={WORKER_TAG: worker_id} | ({LATER_TAG: ",".join(report.later)} if report.later else {}),
    )


def _report_dead(context: dg.SensorEvaluationContext, report: WorkerReport) -> None:
    """A run whose host is gone stays 'started' for Dagster and keeps its slot. If the verdict is wrong, the table's
    compare-and-swap makes it harmless."""
    for run_id in report.dead_runs:
        run = context.instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            context.instance.report_run_failed(
                run, "this run stopped beating for longer than the lease duration: its host is taken for dead"
            )
