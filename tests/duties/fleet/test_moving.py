"""Leases move: a worker died, a worker started, or an owner has no row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.worker import Metrics
from headrace.pipeline.duties.fleet.cursor import read_leader, write_leader
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.ports.leases import WorkerListing
from headrace.pipeline.settings.choices import Heartbeat
from tests.duties.moves import in_lease_mode, let_host_die, owners, row_of, ticks_until
from tests.duties.world import TICK, World
from tests.memory.workers import MemoryWorkerStore


def test_leases_for_which_no_worker_has_room_stay_unassigned_and_each_leader_pass_says_how_many() -> None:
    world = World(workers=("w1", "w2"), shards=6)
    world.settings = replace(
        world.settings, assignment=replace(world.settings.assignment, max_leases=2, tolerance=0.0)
    )
    world.settle()
    assert owners(world) == {"w1": 2, "w2": 2, None: 2}
    every = world.settings.times.assignment // TICK
    assert (
        ticks_until(world, lambda: "2 leases wait for a worker with room for more" in str(world.lead()))
        <= every
    )
    let_host_die(world, "w2")
    ticks_until(world, lambda: "4 leases wait for a worker with room for more" in str(world.lead()))
    assert owners(world) == {"w1": 2, "w2": 2, None: 2}, "w1 is full, so no worker takes w2's leases"


@pytest.mark.parametrize("beside", [World, lambda **k: in_lease_mode(World(**k))])
def test_a_dead_workers_leases_go_to_a_living_worker_within_the_lease_duration_and_four_ticks(beside) -> None:
    world = beside(workers=("w1", "w2"), shards=4)
    world.settle()
    assert owners(world) == {"w1": 2, "w2": 2}
    let_host_die(world, "w2")
    world.work("w1")
    taken = ticks_until(world, lambda: owners(world) == {"w1": 4})
    # with heartbeat lease, leases are looked at every 20 s
    slack = 4 if world.settings.kcl.heartbeat is Heartbeat.WORKER else 8
    assert timedelta(seconds=20) <= (taken + 1) * TICK <= timedelta(seconds=20) + slack * TICK
    assert len(world.work("w1").due) == 4


@pytest.mark.parametrize("beside", [World, lambda **k: in_lease_mode(World(**k))])
def test_a_living_workers_leases_never_move_while_nothing_goes_wrong(beside) -> None:
    world = beside(workers=("w1", "w2"), shards=4)
    world.settle()
    before = {row.key: row.owner for row in world.leases.scan().leases}
    world.tick(120)
    rows = world.leases.scan().leases
    assert {row.key: row.owner for row in rows} == before
    beaten = world.settings.kcl.heartbeat is Heartbeat.LEASE
    assert {row.counter for row in rows} == ({122} if beaten else {1}), "only heartbeats move the counters"


def test_with_heartbeat_lease_a_run_beats_the_rows_that_it_reads() -> None:
    world = in_lease_mode(World(shards=1))
    world.settle()
    run, counters = world.a_run(), []

    def look(step: WaveStep, _keys: tuple[str, ...]) -> None:
        counters.append(row_of(world, 0).counter)
        run.beat()
        counters.append(row_of(world, 0).counter)

    run.on_step = look
    run.wave()
    assert counters[1] == counters[0] + 1


def test_a_worker_whose_row_was_deleted_is_assigned_nothing_until_it_beats_again() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    world.rows.wipe("w2")
    let_host_die(world, "w2")
    world.leases = type(world.leases)([replace(row, owner=None) for row in world.leases.scan().leases])
    world.leader_memory["w1"] = replace(world.leader_memory["w1"], last_sync=None)
    world.lead()
    assert owners(world) == {"w1": 2}


def test_a_worker_whose_run_beats_counts_as_alive_though_its_sensor_is_silent() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    run = world.a_run("w2")
    let_host_die(world, "w2")
    for _ in range(20):
        run.beat()
        world.tick()
    assert owners(world) == {"w1": 1, "w2": 1}


def test_an_owner_without_a_row_counts_as_dead_after_the_lease_duration() -> None:
    world = World(workers=("w1",), shards=2)
    world.settings = replace(world.settings, times=replace(world.settings.times, assignment=TICK))
    world.settle()
    row = row_of(world, 1)
    world.leases = type(world.leases)([row_of(world, 0), replace(row, owner="without-a-row")])
    took = ticks_until(world, lambda: owners(world) == {"w1": 2})
    lease_duration = world.settings.times.lease_duration
    assert lease_duration <= took * TICK <= lease_duration + 4 * TICK


def test_a_new_worker_gets_its_share_at_once_and_no_lease_moves_after_that() -> None:
    world = World(workers=("w1",), shards=6)
    world.settle()
    assert owners(world) == {"w1": 6}
    world.workers = ("w1", "w2")
    assert ticks_until(world, lambda: owners(world) == {"w1": 3, "w2": 3}) <= 3
    world.tick(40)
    assert max(row.counter for row in world.leases.scan().leases) <= 2


@pytest.mark.parametrize(
    ("away", "stopped", "stays"),
    [
        (timedelta(hours=23), False, True),
        (timedelta(hours=25), False, False),
        (timedelta(hours=25), True, True),
    ],
)
def test_the_row_of_a_dead_worker_is_deleted_after_a_day_but_that_of_a_stopped_worker_stays(
    away: timedelta, *, stopped: bool, stays: bool
) -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    if stopped:
        world.rows.set_stopping("w2", stopping=True)
    let_host_die(world, "w2")
    world.clock.advance(away)
    world.tick(12)
    assert {row.worker_id for row in world.rows.listing().workers} == ({"w1", "w2"} if stays else {"w1"})


def rates(world: World, **kbps: float) -> None:
    """Set the rates of the shards by their owners. Each shard was just read to its tip."""
    world.leases = type(world.leases)(
        [
            replace(
                row,
                throughput_kbps=kbps[row.owner or ""],
                looked_at=world.clock.now(),
                behind_ms=0,
                assigned_at=None,
            )
            for row in world.leases.scan().leases
        ]
    )


def test_a_shard_at_rest_weighs_little_after_a_few_minutes_without_any_write() -> None:
    world = World(workers=("w1", "w2"), shards=8)
    world.settle()
    rates(world, w1=10.0, w2=10.0)
    heavy = world.leases.scan().leases[0]
    (owner,) = {heavy.owner}
    assert owner is not None
    world.leases = type(world.leases)(
        [
            replace(row, throughput_kbps=500.0) if row.key == heavy.key else row
            for row in world.leases.scan().leases
        ]
    )
    world.clock.advance(world.settings.times.assignment)
    world.tick(8)
    assert owners(world)[owner] == 1, "the shard with the highest rate has a worker of its own"
    for _ in range(80):  # the other shards are read on, this one rests
        rows = [
            row if row.key == heavy.key else replace(row, looked_at=world.clock.now())
            for row in world.leases.scan().leases
        ]
        world.leases = type(world.leases)(rows)
        world.tick(2)
    assert owners(world)[owner] >= 4
    assert row_of(world, 0).throughput_kbps == 500.0


def test_with_heartbeat_lease_the_falling_rate_of_a_shard_at_rest_is_written_with_the_beat() -> None:
    """A KCL leader goes by the rate as it stands in the row."""
    world = in_lease_mode(World(shards=1))
    world.settle()
    rates(world, w1=8.0)
    world.tick(12)
    assert row_of(world, 0).throughput_kbps == 8.0
    before = row_of(world, 0).counter
    world.tick(14)
    assert row_of(world, 0).counter == before + 14, "no writes but the beats"
    rate = row_of(world, 0).throughput_kbps
    assert rate is not None
    assert 3.5 < rate < 4.5


def test_a_leader_remembers_for_an_hour_that_it_moved_leases_by_cpu() -> None:
    world = World(workers=("w1", "w2"), shards=8)
    world.settle()
    for worker, percent in (("w1", 95.0), ("w2", 5.0)):
        metrics = Metrics({"C": (percent,)}, {"C": (100,)}, "cpu of 1 host", world.clock.now())
        world.rows.report(worker, metrics, seen=None)
    world.clock.advance(world.settings.times.assignment)
    world.tick(2)
    assert owners(world)["w1"] < 4
    assert world.leader_memory["w1"].assignment.cpu_passes == 1
    assert read_leader(write_leader(world.leader_memory["w1"], 0))[0].assignment.cpu_passes == 1
    world.tick(90)
    assert world.leader_memory["w1"].assignment.cpu_passes == 1
    world.clock.advance(timedelta(hours=1))
    world.tick(8)
    assert world.leader_memory["w1"].assignment.cpu_passes == 0


class LateBeats(MemoryWorkerStore):
    """A worker store in which a worker beats just before its row is read by its name."""

    late = "w2"
    revived = 0

    def get_many(self, worker_ids: Sequence[str]) -> WorkerListing:
        if self.late in worker_ids:
            self.beat_run(self.late, "run/attempt")
            self.revived += 1
        return super().get_many(worker_ids)


def test_a_lease_in_a_handover_stays_with_a_holder_that_beats_between_the_leaders_look_and_its_writes() -> (
    None
):
    world = World(workers=("w1", "w2", "w3"), shards=3)
    world.rows = store = LateBeats(clock=world.clock)
    world.settle()
    rows = world.leases.scan().leases
    (lease,) = (row for row in rows if row.owner == "w2")
    handed = replace(lease, owner="w3", checkpoint_owner="w2", run_claim="run/attempt")
    world.leases = type(world.leases)([*(row for row in rows if row != lease), handed])
    store.revived = 0
    for _ in range(12):
        world.clock.advance(TICK)
        store.beat_run("w3", "run/its-own")
        world.work("w1")
        world.lead()
    assert store.revived, "the holder never counted as dead"
    row = world.leases.get(lease.key)
    assert row is not None
    assert (row.holder, row.owner) == ("w2", "w3")
