"""Settings that join no fleet, in tables that live KCL workers use: no lease is taken from them, and the leader
says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.duties.fleet.assignment_pass import AssignmentMemory, plan_pass
from headrace.pipeline.duties.fleet.leader_report import LeaderReport
from headrace.pipeline.duties.policy.known_workers import KnownWorkers
from headrace.pipeline.settings.choices import FormerStreams, Heartbeat, Mode
from tests.beside_kcl.test_beside_kcl import kcl_writes
from tests.duties.moves import shared
from tests.duties.world import TICK, World


def owned_by_kcl(world: World, *, heartbeat: Heartbeat = Heartbeat.WORKER) -> World:
    """A world in which a KCL worker owns all leases."""
    kcl = replace(world.settings.kcl, heartbeat=heartbeat)
    world.settings = replace(world.settings, kcl=kcl)
    world.lead()
    world.leader_memory.clear()
    for row in world.leases.scan().leases:
        world.leases.apply(
            Change(row.key, "KCL", put={"owner": "kcl-1"}, add={"counter": 1}, kind=ChangeKind.TAKE)
        )
    return world


def stamp(world: World, name: str = "kcl-1") -> None:
    """Write the row of a KCL worker with the present time."""
    world.rows._put(Worker(name, last_update=world.clock.now().replace(microsecond=0), measured_by=None))


def ticks_beside_kcl(world: World, ticks: int, *, stamped: bool) -> list[LeaderReport]:
    """For so many ticks, the KCL worker renews its leases while Headrace's sensors tick."""
    reports = []
    for n in range(ticks):
        if stamped and n % 6 == 0:
            stamp(world)
        for row in world.leases.scan().leases:
            if row.owner == "kcl-1":
                kcl_writes(world, int(row.shard_id[-2:]))
        reports.append(world.lead())
        for worker in world.workers:
            world.work(worker)
        world.clock.advance(TICK)
    return reports


def owners(world: World) -> set[str | None]:
    return {row.holder for row in world.leases.scan().leases}


@pytest.mark.parametrize("heartbeat", Heartbeat)
@pytest.mark.parametrize("stamped", [True, False], ids=["3.x", "2.x"])
def test_no_lease_is_taken_from_living_kcl_workers_and_the_leader_says_what_to_do(
    heartbeat: Heartbeat, *, stamped: bool
) -> None:
    world = owned_by_kcl(World(shards=4), heartbeat=heartbeat)
    reports = ticks_beside_kcl(world, 40, stamped=stamped)
    assert owners(world) == {"kcl-1"}
    told = [str(report.trouble) for report in reports if report.trouble is not None]
    assert len(told) >= 5
    assert all("(kcl-1)" in each and "kcl.failover" in each for each in told)


@pytest.mark.parametrize("stamped", [True, False], ids=["3.x", "2.x"])
def test_leases_of_stopped_kcl_workers_move_to_headraces_worker(*, stamped: bool) -> None:
    world = owned_by_kcl(World(shards=4))
    ticks_beside_kcl(world, 12, stamped=stamped)
    world.tick(30)
    assert owners(world) == {"w1"}
    assert world.lead().trouble is None


def test_a_deployment_that_joined_the_fleet_shares_its_leases() -> None:
    world = owned_by_kcl(shared(World(shards=4)), heartbeat=Heartbeat.LEASE)
    assert {report.trouble for report in ticks_beside_kcl(world, 40, stamped=True)} == {None}
    assert owners(world) == {"kcl-1", "w1"}


def test_an_unowned_lease_beside_living_kcl_workers_isnt_assigned_either() -> None:
    world = owned_by_kcl(World(shards=4))
    world.leases.apply(Change(world.shard(3).shard_id, "KCL", put={"owner": None}, kind=ChangeKind.TAKE))
    ticks_beside_kcl(world, 4, stamped=False)  # before this it isn't known whether the KCL worker is alive
    world.leases.apply(Change(world.shard(2).shard_id, "KCL", put={"owner": None}, kind=ChangeKind.TAKE))
    ticks_beside_kcl(world, 20, stamped=False)
    assert world.leases.get(world.shard(2).shard_id).owner is None  # type: ignore[union-attr]


def test_a_kcl_worker_that_appears_in_headraces_tables_is_assigned_nothing() -> None:
    world = World(shards=4)
    world.settle()
    for n in range(90):
        if n % 6 == 0:
            stamp(world)
        world.tick()
    assert owners(world) == {"w1"}


@pytest.mark.parametrize("heartbeat", Heartbeat)
def test_a_worker_of_headrace_whose_row_was_deleted_doesnt_count_as_a_kcl_worker(
    heartbeat: Heartbeat,
) -> None:
    world = World(workers=("w1", "w2"), shards=4)
    world.settings = replace(world.settings, kcl=replace(world.settings.kcl, heartbeat=heartbeat))
    world.settle()
    world.tick(9)
    for _ in range(12):
        world.rows.wipe("w2")  # before some of the leader's assignment passes too
        assert world.lead("w1").trouble is None
        world.tick(3)


@pytest.mark.parametrize(("seconds", "strangers"), [(5, set()), (15, {"w2"})])
def test_an_owner_without_a_row_counts_as_a_kcl_worker_once_a_worker_of_headrace_would_have_made_one(
    seconds: int, strangers: set[str]
) -> None:
    world = World()
    now = world.clock.now()
    fleet = KnownWorkers((), {"w2": Sighting("none", timedelta(seconds=seconds))}, timedelta(seconds=20))
    memory = AssignmentMemory(now - timedelta(seconds=20), {"a": Sighting("8")})
    plan = plan_pass(
        (Lease("a", 9, owner="w2"),), fleet, memory, policy=world.policy, times=world.settings.times, now=now
    )
    assert plan.memory.strangers == strangers


def test_an_owner_whose_run_claims_its_lease_doesnt_count_as_a_kcl_worker_though_it_has_no_row() -> None:
    world = World(shards=1)
    world.settle()
    row = world.leases.scan().leases[0]
    for n in range(20):  # `headrace consume` for a worker whose sensor never ticked
        world.leases.apply(
            Change(
                row.key,
                "run",
                put={"owner": "w9", "run_claim": "run/9"},
                add={"counter": 1},
                kind=ChangeKind.TAKE,
            )
        )
        assert world.lead().trouble is None, n
        world.clock.advance(TICK)


def test_an_owner_whose_worker_row_isnt_understood_doesnt_count_as_a_kcl_worker() -> None:
    world = owned_by_kcl(World(shards=4))
    world.rows.hold_odd_row("kcl-1", "broken")
    assert {report.trouble for report in ticks_beside_kcl(world, 20, stamped=False)} == {None}


def test_a_worker_doesnt_beat_while_a_kcl_worker_leads() -> None:
    world = World(shards=2)
    alarms = []
    for n in range(40):
        if n % 6 == 0:
            stamp(world)
            world.lock._row = LockRow("kcl-1", f"v{n}", timedelta(seconds=120))
        alarms.append(world.work().alarm)
        world.clock.advance(TICK)
    beat = world.rows.get("w1").beat  # type: ignore[union-attr]
    assert beat <= 9, "the worker knew by its third look"
    assert set(alarms[9:]) != {None}
    assert all(alarm is not None and "kcl.failover" in alarm for alarm in alarms[9:])
    for _ in range(30):  # the KCL worker was killed, and its lock is left
        last = world.work()
        world.clock.advance(TICK)
    assert last.alarm is None
    assert world.rows.get("w1").beat > beat  # type: ignore[union-attr]


def test_a_lock_left_by_a_dead_kcl_leader_doesnt_keep_a_worker_from_beating() -> None:
    world = World(shards=2)
    stamp(world)
    world.lock._row = LockRow("kcl-1", "v", timedelta(seconds=120))
    for _ in range(60):
        assert world.work().alarm is None
        world.tick()
    assert owners(world) == {"w1"}


def test_a_worker_that_joined_the_fleet_beats_while_a_kcl_worker_leads() -> None:
    world = shared(World(shards=2))
    for n in range(30):
        if n % 6 == 0:
            stamp(world)
            world.lock._row = LockRow("kcl-1", f"v{n}", timedelta(seconds=120))
        assert world.work().alarm is None
        world.clock.advance(TICK)
    assert world.rows.get("w1").beat == 30  # type: ignore[union-attr]


@pytest.mark.parametrize("heartbeat", Heartbeat)
def test_rows_of_a_stream_that_only_kcl_workers_read_stay_whatever_former_streams_says(
    heartbeat: Heartbeat,
) -> None:
    world = owned_by_kcl(World(shards=1, more_streams=("returns",)), heartbeat=heartbeat)
    world.settings = replace(
        world.settings,
        streams=world.settings.streams[:1],
        former_streams=FormerStreams.AUTO,
        former_streams_wait=timedelta(minutes=5),
    )
    theirs = {row.key for row in world.leases.scan().leases}
    for _ in range(200):
        for key in theirs:
            world.leases.apply(
                Change(key, "KCL", put={"owner": "kcl-1"}, add={"counter": 1}, kind=ChangeKind.TAKE)
            )
        world.lead()
        world.clock.advance(TICK)
    assert {row.key for row in world.leases.scan().leases} == theirs
    for _ in range(200):  # the KCL worker is stopped, so the wait begins
        world.lead()
        world.clock.advance(TICK)
    assert len(world.leases.scan().leases) == 1


def test_in_mode_2x_too_rows_of_a_stream_that_only_kcl_workers_read_stay() -> None:
    """The KCL worker's name comes after w1 in the shuffled order, so that w1 syncs shards."""
    world = World(shards=1, more_streams=("returns",))
    kcl = replace(world.settings.kcl, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, kcl=kcl)
    world.lead()
    world.settings = replace(
        world.settings,
        streams=world.settings.streams[:1],
        former_streams=FormerStreams.AUTO,
        former_streams_wait=timedelta(minutes=5),
    )
    theirs, mine = sorted(row.key for row in world.leases.scan().leases)
    world.rows.beat("w1", "dagster", found=None)
    world.leases.apply(Change(mine, "ours", put={"owner": "w1"}, add={"counter": 1}, kind=ChangeKind.TAKE))
    led = 0
    for _ in range(200):
        world.leases.apply(
            Change(theirs, "KCL", put={"owner": "zed"}, add={"counter": 1}, kind=ChangeKind.TAKE)
        )
        led += world.lead().leads
        world.clock.advance(TICK)
    assert led
    assert len(world.leases.scan().leases) == 2
    world.leases.apply(
        Change(theirs, "KCL", remove=frozenset({"owner"}), add={"counter": 1}, kind=ChangeKind.TAKE)
    )
    for _ in range(200):  # the row has no owner any more, so the wait begins
        world.lead()
        world.clock.advance(TICK)
    assert len(world.leases.scan().leases) == 1
