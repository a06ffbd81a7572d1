"""What a run tells of its hosts and its shards, in the rows that others judge by."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.core.change import Applied, Change, Refused, assign
from pipeline.core.worker import THROUGHPUT, Worker
from pipeline.errors import Throttled
from pipeline.memory.leases import MemoryLeaseStore
from pipeline.settings.model import AssignmentSettings, KclSettings
from tests.duties.measured import MeasuringStage, a_load
from tests.duties.world import World

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
    """What the tasks of the next wave tell, of that many seconds before."""
    world.stage.loads = (a_load(cpu, seconds=seconds),)  # type: ignore[attr-defined]


def row_of(world: World) -> Worker:
    found = world.rows.get("w1")
    assert found is not None
    return found


def lease(world: World, shard: int = 0) -> float | None:
    found = world.leases.get(world.shard(shard).shard_id)
    assert found is not None
    return found.throughput_kbps


def test_the_first_half_minute_that_was_measured_is_told(world: World):
    row = wave(world, 40)
    assert (row.stats, row.ranges, row.measured_by) == ({"C": (40.0,)}, {"C": (100,)}, "cpu of 1 host")


def test_a_run_gathers_half_a_minute_of_waves_before_it_adds_an_average(world: World):
    run = world.a_run()
    seen = []
    for cpu in (10, 20, 60, 40, 40, 70):
        world.produce(0)
        measure(world, cpu, seconds=10)
        run.wave()
        seen.append(row_of(world).stats.get("C"))
        world.clock.advance(10 * SECOND)
    assert seen == [None, None, (30,), (30,), (30,), (30, 50)]


def test_a_moments_work_is_no_average(world: World):
    """A worker that is busy for three seconds now and then would look busy for ever."""
    assert wave(world, 100, seconds=3).measured_by == THROUGHPUT


def test_runs_that_come_and_go_add_no_more_than_one_that_stays(world: World):
    for n in range(13):
        wave(world, 40 + n, run=f"run-{n}", after=10)
    assert row_of(world).stats == {"C": (40, 43, 46, 49, 52)}


def test_hosts_of_one_wave_are_averaged(world: World):
    world.produce(0)
    world.stage.loads = (a_load(90, "a"), a_load(90, "a"), a_load(10, "b"))  # type: ignore[attr-defined]
    world.wave()
    row = row_of(world)
    assert (row.stats, row.measured_by) == ({"C": (50.0,)}, "cpu of 2 hosts")


def test_where_nothing_can_be_measured_the_row_says_throughput(world: World):
    world.produce(0)
    world.wave()
    row = row_of(world)
    assert (row.stats, row.ranges, row.measured_by) == ({}, {}, THROUGHPUT)


def test_a_source_that_fails_is_told_as_kcl_tells_it(world: World):
    assert wave(world, None).stats == {"C": (-1.0,)}


def test_after_three_minutes_without_a_run_the_row_is_back_at_throughput(world: World):
    wave(world, 95)
    for _ in range(35):
        world.tick()
    assert row_of(world).stats == {"C": (95.0,)}
    for _ in range(3):
        world.tick()
    assert (row_of(world).stats, row_of(world).measured_by) == ({}, THROUGHPUT)


def test_the_knobs_are_heeded(world: World):
    world.settings = replace(world.settings, assignment=AssignmentSettings(cpu=False))
    assert wave(world, 95).measured_by == THROUGHPUT
    kcl = KclSettings(max_utilisation=70)
    world.settings = replace(world.settings, assignment=AssignmentSettings(), kcl=kcl)
    assert wave(world, 95).ranges == {"C": (70,)}


def test_a_row_that_cannot_be_written_harms_no_wave_and_is_told_later(
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


def test_a_run_that_another_was_faster_than_keeps_what_it_has(world: World, monkeypatch: pytest.MonkeyPatch):
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


def test_of_two_runs_at_once_one_tells_and_the_other_keeps_what_it_has(world: World):
    one, other = world.a_run(run="one"), world.a_run(run="other")
    world.produce(0)
    measure(world, 40)
    one.wave()
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
    """20 records of 2 bytes within 10 s, read an hour later."""
    world.produce(0)
    world.clock.advance(10 * SECOND)
    world.produce(0)
    world.clock.advance(3600 * SECOND)
    world.wave()
    assert lease(world) == pytest.approx(20 * 2 / 1024 / 10.01, abs=1e-6)


class CountingLeases(MemoryLeaseStore):
    writes = 0

    def apply(self, change: Change) -> Applied | Refused:
        self.writes += 1
        return super().apply(change)


def test_waves_that_find_nothing_let_the_rate_fade_and_make_no_write_more(world: World):
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
            assert lease(world) == pytest.approx(before, rel=0.05), "a record a minute ago is no rest yet"
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


def test_an_ended_shard_carries_nothing(world: World):
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
