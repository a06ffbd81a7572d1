"""What a run writes about its hosts and its shards, for the leader to balance by."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused, assign
from headrace.pipeline.core.leases.worker import THROUGHPUT, Worker
from headrace.pipeline.errors import Throttled
from headrace.pipeline.settings.blocks.assignment import AssignmentSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from tests.duties.measured import MeasuringStage, a_load
from tests.duties.world import World
from tests.memory.leases import MemoryLeaseStore

SECOND = timedelta(seconds=1)


@pytest.fixture
def world() -> World:
    made = World()
    made.settle()
    made.stage = MeasuringStage(made.stage)  # type: ignore[assignment]
    return made


def wave(
    world: World, cpu: float | None, *, run: str = "run", after: float = 0, seconds: float = 30
) -> Worker:
    world.clock.advance(after * SECOND)
    world.produce(0)
    measure(world, cpu, seconds=seconds)
    world.wave(run=run)
    return row_of(world)


def measure(world: World, cpu: float | None, *, seconds: float = 30) -> None:
    """Set the load that the tasks of the next wave report, measured over so many seconds."""
    world.stage.loads = (a_load(cpu, seconds=seconds),)  # type: ignore[attr-defined]


def row_of(world: World) -> Worker:
    found = world.rows.get("w1")
    assert found is not None
    return found


def lease(world: World, shard: int = 0) -> float | None:
    found = world.leases.get(world.shard(shard).shard_id)
    assert found is not None
    return found.throughput_kbps


def test_the_row_holds_the_cpu_of_the_first_half_minute_that_was_measured(world: World):
    row = wave(world, 40)
    assert (row.stats, row.ranges, row.measured_by) == ({"C": (40.0,)}, {"C": (100,)}, "cpu of 1 host")


def test_a_run_adds_an_average_to_the_row_once_its_waves_took_half_a_minute_together(world: World):
    run = world.a_run()
    seen = []
    for cpu in (10, 20, 60, 40, 40, 70):
        world.produce(0)
        measure(world, cpu, seconds=10)
        run.wave()
        seen.append(row_of(world).stats.get("C"))
        world.clock.advance(10 * SECOND)
    assert seen == [None, None, (30,), (30,), (30,), (30, 50)]


def test_a_few_seconds_of_cpu_are_not_reported(world: World):
    """Otherwise a worker that is busy for three seconds now and then would always look busy."""
    assert wave(world, 100, seconds=3).measured_by == THROUGHPUT


def test_many_short_runs_add_no_more_averages_than_one_long_run(world: World):
    for n in range(13):
        wave(world, 40 + n, run=f"run-{n}", after=10)
    assert row_of(world).stats == {"C": (40, 43, 46, 49, 52)}


def test_the_row_holds_the_average_of_all_hosts_of_a_wave(world: World):
    world.produce(0)
    world.stage.loads = (a_load(90, "a"), a_load(90, "a"), a_load(10, "b"))  # type: ignore[attr-defined]
    world.wave()
    row = row_of(world)
    assert (row.stats, row.measured_by) == ({"C": (50.0,)}, "cpu of 2 hosts")


def test_where_no_cpu_is_measured_the_row_says_throughput(world: World):
    world.produce(0)
    world.wave()
    row = row_of(world)
    assert (row.stats, row.ranges, row.measured_by) == ({}, {}, THROUGHPUT)


def test_a_failed_cpu_measurement_is_written_as_kcl_writes_it(world: World):
    assert wave(world, None).stats == {"C": (-1.0,)}


def test_three_minutes_after_the_last_run_the_row_says_throughput_again(world: World):
    wave(world, 95)
    for _ in range(35):
        world.tick()
    assert row_of(world).stats == {"C": (95.0,)}
    for _ in range(3):
        world.tick()
    assert (row_of(world).stats, row_of(world).measured_by) == ({}, THROUGHPUT)


def test_the_settings_for_cpu_and_max_utilisation_take_effect(world: World):
    world.settings = replace(world.settings, assignment=AssignmentSettings(cpu=False))
    assert wave(world, 95).measured_by == THROUGHPUT
    kcl = KclSettings(max_utilisation=70)
    world.settings = replace(world.settings, assignment=AssignmentSettings(), kcl=kcl)
    assert wave(world, 95).ranges == {"C": (70,)}


def test_a_failed_write_of_the_row_harms_no_wave_and_the_cpu_is_reported_later(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    run = world.a_run()
    measure(world, 40)
    with monkeypatch.context() as patch:
        patch.setattr(world.rows, "report", _throttled)
        world.produce(0)
        assert run.wave().rows == 10
    world.clock.advance(30 * SECOND)
    measure(world, 60)
    world.produce(0)
    assert run.wave().rows == 10
    assert row_of(world).stats == {"C": (50.0,)}
    world.check()


def test_a_run_whose_report_was_refused_reports_its_cpu_with_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    run = world.a_run()
    world.produce(0)
    measure(world, 80)
    with monkeypatch.context() as patch:
        patch.setattr(world.rows, "report", lambda *_, **__: False)
        run.wave()
    world.clock.advance(30 * SECOND)
    world.produce(0)
    measure(world, 60)
    run.wave()
    assert row_of(world).stats == {"C": (70,)}


def test_of_two_runs_at_once_one_reports_its_cpu_and_the_other_does_so_later(world: World):
    one, other = world.a_run(run="one"), world.a_run(run="other")
    world.produce(0)
    measure(world, 40)
    one.wave()
    one.let_go()
    world.produce(0)
    measure(world, 80)
    other.wave()
    assert row_of(world).stats == {"C": (40,)}
    world.clock.advance(30 * SECOND)
    world.produce(0)
    measure(world, 60)
    other.wave()
    assert row_of(world).stats == {"C": (40, 70)}


def test_a_checkpoint_carries_the_rate_at_which_records_arrived(world: World):
    """20 records of 2 bytes arrive within 10 s, and are read an hour later."""
    world.produce(0)
    world.clock.advance(10 * SECOND)
    world.produce(0)
    world.clock.advance(3600 * SECOND)
    world.wave()
    assert lease(world) == pytest.approx(20 * 2 / 1024 / 10.01, abs=1e-6)


class CountingLeases(MemoryLeaseStore):
    """Counts the writes."""

    writes = 0

    def apply(self, change: Change) -> Applied | Refused:
        self.writes += 1
        return super().apply(change)


def test_waves_that_find_no_record_lower_the_rate_without_an_additional_write(world: World):
    leases = CountingLeases(world.leases.scan().leases)
    world.leases = leases
    world.produce(0)
    world.wave()
    before = lease(world)
    assert before
    writes = []
    for minute in range(6):
        world.clock.advance(60 * SECOND)
        leases.writes = 0
        world.wave(keys=[world.shard(0).shard_id])
        writes.append(leases.writes)
        if minute == 0:
            assert lease(world) == pytest.approx(before, rel=0.05), (
                "a minute after the last record the rate hardly falls"
            )
    assert lease(world) == pytest.approx(before / 32, rel=0.1)
    assert len(set(writes)) == 1


def test_the_rate_stays_with_the_shard_when_its_owner_changes():
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    (row,) = world.leases.scan().leases
    assert row.owner is not None
    world.produce(0)
    world.wave(row.owner)
    before = lease(world)
    (row,) = world.leases.scan().leases
    to = "w2" if row.owner == "w1" else "w1"
    world.leases.apply(assign(row, to, "a test's wish"))
    assert lease(world) == before
    world.clock.advance(10 * SECOND)
    world.produce(0)
    world.wave(to)
    assert before is not None
    assert lease(world) == pytest.approx((before + 20 / 1024 / 10.01) / 2, abs=1e-6)


def test_the_rate_of_an_ended_shard_is_zero(world: World):
    world.produce(0)
    world.wave()
    assert lease(world)
    world.source.split(world.shard(0))
    world.wave()
    found = world.leases.get(world.shard(0).shard_id)
    assert found is not None
    assert (found.has_ended, found.throughput_kbps) == (True, 0.0)


def _throttled(*_: object, **__: object) -> bool:
    raise Throttled("table app: too many requests")
