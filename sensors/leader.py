"""The leader's clock: election, shard sync, assignment, and the partitions of this deployment."""

from contextlib import suppress

import dagster as dg

from pipeline.clock import SystemClock, SystemIds
from pipeline.duties.leader_tick import LeaderDuty, LeaderMemory
from pipeline.errors import HeadraceError, Transient
from pipeline.ports import ShardSource
from pipeline.settings import Settings
from resources.beating import beating
from resources.lake import LakeResource
from resources.lease_tables import LeaseTablesResource
from resources.stream import StreamResource
from sensors.cursor import Kept, read_leader, write_leader
from sensors.once import alone
from sensors.partitions import missing_partitions

INTERVAL = 4
"""Seconds. Dagster's loop looks every 5: asking for 5 would be asking for 10."""
_KEPT: Kept[LeaderMemory] = Kept()
_SOURCES: dict[str, ShardSource] = {}
"""Kept between ticks of one process: it knows the tags of streams, of which Kinesis tells five a second."""
_FAILURES = 3
"""In a row: then the lock is given up, so that another deployment may do better."""


def build_leader(settings: Settings) -> dg.SensorDefinition:
    @dg.sensor(
        name="leader",
        minimum_interval_seconds=INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=__doc__,
    )
    def leader(
        context: dg.SensorEvaluationContext,
        lease_tables: LeaseTablesResource,
        stream: StreamResource,
        lake: LakeResource,
    ) -> dg.SensorResult:
        with alone(f"leader of {settings.application}") as free:
            if not free:
                return dg.SensorResult(
                    skip_reason="leader: the tick before is still at work", cursor=context.cursor
                )
            return _tick(context, settings, _duty(settings, lease_tables, stream, lake))

    return leader


def _duty(
    settings: Settings, lease_tables: LeaseTablesResource, stream: StreamResource, lake: LakeResource
) -> LeaderDuty:
    source = _SOURCES.get(settings.application) or stream.source()
    _SOURCES[settings.application] = source
    return LeaderDuty(
        leader_id=settings.workers[0].id,
        settings=settings,
        tables=lease_tables.tables(),
        leases=lease_tables.leases(),
        workers=lease_tables.workers(),
        lock=lease_tables.lock(),
        source=source,
        table=lake.landing_table("leader", source),
        clock=SystemClock(),
        ids=SystemIds(),
    )


def _give_up(duty: LeaderDuty) -> None:
    """Best effort: a lock that can't be released in this trouble is taken over once it stands still."""
    with suppress(HeadraceError):
        duty.release()


def _tick(context: dg.SensorEvaluationContext, settings: Settings, duty: LeaderDuty) -> dg.SensorResult:
    memory, failures = read_leader(context.cursor)
    memory = _KEPT.get(settings.application, context.cursor) or memory
    times = settings.times
    try:
        with beating(duty.beat_lock, times.leader_lock / 4, at_most=times.leader_deadline):
            report = duty.tick(memory)
    except Transient as error:
        # What it looked at last still counts: a leader that fails at every second tick must notice a death, too.
        return dg.SensorResult(
            skip_reason=f"leader: {error}", cursor=_failed(settings, duty, memory, failures=failures)
        )
    except Exception:
        _give_up(duty)  # whatever it is: nobody is to lead who can't
        raise
    if report.trouble is None:
        cursor = _KEPT.put(settings.application, write_leader(report.memory, 0), report.memory)
    else:
        context.log.error(str(report))
        cursor = _failed(settings, duty, report.memory, failures=failures)
    return dg.SensorResult(
        skip_reason=str(report),
        cursor=cursor,
        dynamic_partitions_requests=missing_partitions(context, settings, report.partitions),
    )


def _failed(settings: Settings, duty: LeaderDuty, memory: LeaderMemory, *, failures: int) -> str:
    """The cursor after a failure; after the third in a row the lock is let go of."""
    if failures + 1 >= _FAILURES:
        _give_up(duty)
        failures = -1
    return _KEPT.put(settings.application, write_leader(memory, failures + 1), memory)
