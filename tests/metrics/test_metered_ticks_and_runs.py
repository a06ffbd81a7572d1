"""What ticks and runs send, seen from the wiring: the real duties work on the ports in memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.settings.choices import MetricsLevel
from tests.duties.world import TICK, World
from tests.metrics.metered_world import MeteredWorld

SHARD = "shardId-000000000000"


@pytest.fixture
def metered() -> Iterator[MeteredWorld]:
    world = MeteredWorld()
    yield world
    world.close()


class Interrupted(BaseException):
    """Stands for Dagster's exception in a run that is terminated, which is no `Exception`."""


def test_a_wave_sends_kcls_series_of_each_shard(metered: MeteredWorld) -> None:
    metered.tick(3)
    metered.world.produce(0, 10)
    metered.run()
    assert metered.of(kcl.RECORDS_PROCESSED, ShardId=SHARD).total == 10
    assert (
        metered.of(kcl.PROCESS_SUCCESS, ShardId=SHARD).total
        == metered.of(kcl.PROCESS_SUCCESS, ShardId=SHARD).samples
    )
    assert metered.of(kcl.MILLIS_BEHIND, ShardId=SHARD).last == 0
    assert metered.of(kcl.APPLICATION_BEHIND).samples == metered.of(kcl.MILLIS_BEHIND).samples
    assert metered.of(kcl.UPDATE_LEASE, ShardId=SHARD).total >= 1
    assert metered.of(kcl.GET_RECORDS, ShardId=SHARD).total >= 1
    assert metered.of(own.RECORDS_LANDED, StreamName="orders").total == 10
    assert metered.of(own.COMMIT_TIME).samples >= 1


def test_an_application_with_one_stream_sends_no_stream_id_and_one_with_several_does() -> None:
    for more in ((), ("clicks",)):
        metered = MeteredWorld(World(more_streams=more))
        metered.tick(3)
        metered.world.produce(0, 1)
        metered.run()
        names = {
            dict(d.dimensions).get("StreamId") for d in metered.sent() if d.series is kcl.RECORDS_PROCESSED
        }
        expected = {metered.world.stream_now(n).serialized for n in ("orders", *more)} if more else {None}
        assert names == expected
        metered.close()


def test_a_shard_that_fails_and_a_wave_that_an_error_ends_send_success_0(metered: MeteredWorld) -> None:
    metered.tick(3)
    metered.world.produce(0, 1)

    def die(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            raise Interrupted

    with pytest.raises(Interrupted):
        metered.run(on_step=die)
    # Sent by the end of the run itself: a process that is ended sends nothing later.
    failed = [d for d in metered.sink.sent if d.series is kcl.PROCESS_SUCCESS]
    assert [d.statistics.total for d in failed] == [0, 0]
    assert metered.of(own.SHARDS_FAILED).total == 2


def test_the_end_of_a_shard_sends_what_shutdown_tasks_send(metered: MeteredWorld) -> None:
    metered.tick(3)
    metered.world.produce(0, 1)
    metered.world.source.split(metered.world.shard(0))
    metered.run()
    assert metered.of(kcl.END_UPDATE_LEASE, ShardId=SHARD).total == 1
    assert metered.of(kcl.END_CREATE_LEASE).total == 2
    assert metered.of(kcl.END_CREATE_LEASE_AT).total == 2


def test_a_leading_tick_sends_the_applications_figures(metered: MeteredWorld) -> None:
    metered.tick(3)
    assert metered.of(kcl.LEADS).total == 3
    assert metered.of(kcl.INITIALIZE).total == 1
    assert metered.of(kcl.TOTAL_LEASES).last == 2
    assert metered.of(kcl.NUM_WORKERS).last == 1
    assert metered.of(kcl.EXPIRED_LEASES).most == 2
    assert metered.of(kcl.SYNC_CREATE_LEASE).total == 2
    assert metered.of(kcl.SYNC_CREATE_LEASE_AT["TRIM_HORIZON"]).total == 2
    assert metered.of(kcl.SYNC_SUCCESS).total >= 1
    assert metered.of(kcl.ASSIGN_LEASES).total >= 1
    assert metered.of(own.UNREAD_SHARDS).last == 2
    assert not {own.LAG, own.RETENTION_LEFT} & {datum.series for datum in metered.sent()}, (
        "nobody knows how far behind a shard is that was never read: 0 would be untrue"
    )
    metered.run()
    metered.tick(6)
    assert metered.of(own.UNREAD_SHARDS).last == 0
    assert metered.of(own.RETENTION_LEFT, StreamName="orders").last == timedelta(hours=24).total_seconds()
    assert metered.of(own.LAG, StreamName="orders").last == 0
    assert metered.of(own.FAILING_SHARDS).last == 0
    assert metered.of(own.SNAPSHOTS).last >= 1


def test_a_deployment_that_does_not_lead_sends_none_of_the_applications_figures(
    metered: MeteredWorld,
) -> None:
    metered.tick(3)
    # Another deployment with the same tables: it looks on while the first one holds the lock.
    onlooker = MeteredWorld(World(workers=("w2",), clock=metered.world.clock))
    for name in ("source", "leases", "rows", "lock", "table", "tables", "ids"):
        setattr(onlooker.world, name, getattr(metered.world, name))
    assert "w1 leads" in onlooker.lead()
    operations = {"HeadraceFleet", "LeaseAssignmentManager", "PeriodicShardSyncManager", "ShardSyncTask"}
    sent = {(d.series.operation, d.series.name) for d in onlooker.sent()}
    assert onlooker.of(kcl.LEADS).total == 0
    assert {pair for pair in sent if pair[0] in operations} == {
        ("LeaseAssignmentManager", "Success"),
        ("LeaseAssignmentManager", "Time"),
    }
    onlooker.close()


def test_a_failing_tick_sends_success_0(metered: MeteredWorld) -> None:
    metered.tick(3)
    metered.sent().clear()
    metered.world.lock.read = _unreachable  # type: ignore[method-assign]
    metered.world.rows.get = _unreachable  # type: ignore[method-assign,assignment]
    metered.lead()
    metered.work("w1")
    assert metered.of(kcl.ASSIGN_SUCCESS).total == 0
    assert metered.of(kcl.LEADS).total == 0
    assert metered.of(kcl.RENEW_SUCCESS, WorkerIdentifier="w1").total == 0


def _unreachable(*_: object) -> None:
    raise Unreachable("DynamoDB doesn't answer")


def test_a_workers_tick_sends_its_leases(metered: MeteredWorld) -> None:
    metered.tick(4)
    assert metered.of(kcl.CURRENT_LEASES, WorkerIdentifier="w1").last == 2
    assert metered.of(kcl.NEW_LEASES, WorkerIdentifier="w1").total == 2
    assert metered.of(kcl.LOST_LEASES, WorkerIdentifier="w1").total == 0
    assert metered.of(kcl.RENEW_SUCCESS, WorkerIdentifier="w1").total == 4
    assert metered.of(kcl.DISCOVERY_SUCCESS, WorkerIdentifier="w1").samples >= 1
    assert metered.of(own.SHARDS_DUE, WorkerIdentifier="w1").last == 2


def test_the_lag_of_a_shard_that_stands_behind_grows_with_time_and_retention_left_falls() -> None:
    metered = MeteredWorld(World(wave_records=5))
    metered.tick(3)
    metered.world.produce(0, 20)
    attempt = metered.wiring.attempt("w1", "run", metered.world.runs, on_waiting=lambda _: None)
    metered.world.runs.launch("run", "w1")
    metered.world.runs.start("run")
    attempt.wave()
    attempt.let_go()
    metered.world.runs.end("run")
    metered.world.clock.advance(timedelta(minutes=10))
    metered.tick(5)
    assert metered.of(own.LAG, StreamName="orders").last >= 600
    assert metered.of(own.RETENTION_LEFT, StreamName="orders").least <= 86_400 - 600
    assert metered.of(own.BACKLOG, StreamName="orders").last > 0
    metered.close()


def kcl_reads_on(metered: MeteredWorld, *, shard: int) -> None:
    """A worker of KCL holds the shard, moves its checkpoint, and lives."""
    world = metered.world
    world.rows._put(Worker("kcl-1", last_update=world.clock.now().replace(microsecond=0)))
    row = world.leases.get(world.shard(shard).shard_id)
    assert row is not None
    moved = Checkpoint(str(int(row.checkpoint.sequence) + 1)) if row.checkpoint.is_digits else row.checkpoint
    put = {"owner": "kcl-1", "checkpoint": moved}
    world.leases.apply(Change(row.key, "kcl-1", put=put, add={"counter": 1}, kind=ChangeKind.TAKE))


def test_in_a_healthy_fleet_with_workers_of_kcl_the_lag_of_headraces_shards_is_sent_all_the_time(
    metered: MeteredWorld,
) -> None:
    """The alarm on `Lag` takes silence for a dead deployment."""
    metered.tick(3)
    for shard in (0, 1):
        metered.world.produce(shard, 1)
    metered.run()
    for _ in range(6):
        kcl_reads_on(metered, shard=0)
        metered.tick()
    metered.sent().clear()
    for _ in range(4):
        kcl_reads_on(metered, shard=0)
        metered.tick()
    lag = metered.of(own.LAG, StreamName="orders")
    assert (lag.samples, lag.most) == (metered.of(kcl.TOTAL_LEASES).samples, 0)
    assert metered.of(own.UNKNOWN_LAG_SHARDS, StreamName="orders").least == 1


def test_where_workers_of_kcl_read_all_shards_no_lag_is_sent(metered: MeteredWorld) -> None:
    metered.tick(3)
    for shard in (0, 1):
        metered.world.produce(shard, 1)
    metered.run()
    for _ in range(6):
        kcl_reads_on(metered, shard=0)
        kcl_reads_on(metered, shard=1)
        metered.lead()
        metered.sent().clear()
        metered.world.clock.advance(TICK)
    kcl_reads_on(metered, shard=0)
    kcl_reads_on(metered, shard=1)
    metered.lead()
    assert metered.of(own.UNKNOWN_LAG_SHARDS).last == 2
    sent = {datum.series for datum in metered.sent()}
    assert not {own.LAG, own.BACKLOG, own.RETENTION_LEFT} & sent, "a 0 would be untrue"


def test_at_rest_the_workers_sensor_tells_that_nothing_is_behind(metered: MeteredWorld) -> None:
    metered.tick(3)
    metered.world.produce(0, 1)
    metered.run()
    metered.sent().clear()
    metered.tick(4)
    at_rest = metered.of(kcl.APPLICATION_BEHIND)
    assert at_rest.samples >= 1
    assert at_rest.most == 0
    metered.sent().clear()
    # A record arrives: the look finds it, and asks for a run instead.
    metered.world.produce(0, 1)
    metered.tick(4)
    assert kcl.APPLICATION_BEHIND not in {datum.series for datum in metered.sent()}


@pytest.mark.parametrize("level", [MetricsLevel.SUMMARY, MetricsLevel.DETAILED])
def test_the_level_decides_what_is_sent(level: MetricsLevel) -> None:
    metered = MeteredWorld(level=level)
    metered.tick(3)
    metered.world.produce(0, 1)
    metered.run()
    levels = {datum.series.level.name for datum in metered.sent()}
    assert levels == {"SUMMARY"} if level is MetricsLevel.SUMMARY else {"SUMMARY", "DETAILED"}
    metered.close()


def test_without_the_dimension_shard_id_all_shards_are_one_series() -> None:
    metered = MeteredWorld(dimensions="WorkerIdentifier")
    metered.tick(3)
    metered.world.produce(0, 3)
    metered.world.produce(1, 4)
    metered.run()
    of_records = [d for d in metered.sent() if d.series is kcl.RECORDS_PROCESSED]
    assert {d.dimensions for d in of_records} == {(("Operation", "ProcessTask"),)}
    assert metered.of(kcl.RECORDS_PROCESSED).total == 7
    metered.close()
