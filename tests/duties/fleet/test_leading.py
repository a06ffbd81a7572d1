"""Which deployment leads, when it stops leading, what a leader deletes, and which deployments scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, claim
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.preview import preview
from headrace.pipeline.errors import Throttled, WrongShape
from headrace.pipeline.ports.leases import Listing, WorkerListing
from headrace.pipeline.settings.choices import Heartbeat, Mode
from tests.duties.moves import let_host_die, owners, row_of, shared, ticks_until
from tests.duties.world import TICK, World


def test_a_stopping_worker_gives_up_its_leases_and_another_worker_owns_them_within_two_ticks() -> None:
    world = World(workers=("w1", "w2"), shards=4)
    world.settle()
    world.rows.set_stopping("w2", stopping=True)
    assert ticks_until(world, lambda: owners(world) == {"w1": 4}) <= 2
    assert "`headrace stop --cancel`" in str(world.work("w2"))
    scans = world.leases.scans
    world.tick(3)
    assert world.leases.scans - scans <= 2, "a stopped worker doesn't make the leader look at each tick"
    world.rows.set_stopping("w2", stopping=False)
    assert ticks_until(world, lambda: owners(world) == {"w1": 2, "w2": 2}) <= 4


def test_a_beat_by_the_ticks_own_timer_doesnt_cost_the_deployment_its_lead() -> None:
    """The beat may come after the tick has read the lock, where the read of the workers takes long."""
    world = World()
    world.settle()
    look = world.rows.listing

    def list_slowly() -> WorkerListing:
        world.clock.advance(TICK)
        assert world.a_leader().electing.beat()
        return look()

    world.rows.listing = list_slowly  # type: ignore[method-assign]
    assert all(world.lead().leads for _ in range(3))


def test_a_worker_that_beats_again_after_the_leaders_look_keeps_its_leases() -> None:
    """The counters of its leases don't tell: they stand still while a living run keeps its claims from wave to wave."""
    world = World(workers=("w1", "w2"), shards=4)
    world.settle()
    let_host_die(world, "w2")
    get_many, came_back = world.rows.get_many, False

    def just_then(names: Sequence[str]) -> WorkerListing:
        nonlocal came_back
        if not came_back and "w2" in names and world.leader_memory["w1"].workers["w2"].credit > 3 * TICK:
            came_back = True
            world.rows.beat("w2", "dagster-1", found="dagster-1")
        return get_many(names)

    world.rows.get_many = just_then  # type: ignore[method-assign,assignment]
    ticks_until(world, lambda: came_back)
    assert owners(world) == {"w1": 2, "w2": 2}
    assert ticks_until(world, lambda: owners(world) == {"w1": 4}) >= 4, "its silence counts anew"


def test_a_preview_in_kcl_mode_2_x_assigns_nothing() -> None:
    world = World(shards=2)
    how = replace(world.settings.kcl, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, kcl=how)
    world.lead()
    world.rows.beat("w1", "dagster-1", found=None)
    memory = LeaderMemory()
    for _ in range(3):
        seen = preview(world.a_leader(), memory)
        memory = seen.memory
        world.clock.advance(TICK)
        world.rows.beat("w1", "dagster-1", found="dagster-1")
    assert (seen.changes, owners(world)) == ((), {None: 2})


def test_a_stopping_worker_gives_up_a_lease_only_after_its_runs_wave() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    world.runs.launch("run", "w2")
    world.runs.start("run")
    run = world.a_run("w2", "run")
    run.beat()
    shard = next(row for row in world.leases.scan().leases if row.owner == "w2")
    assert isinstance(world.leases.apply(claim(shard, "w2", run.claims.claim)), Applied)
    world.rows.set_stopping("w2", stopping=True)
    assert "1 lease still being read" in str(world.work("w2"))
    assert owners(world) == {"w1": 1, "w2": 1}
    world.runs.end("run")
    world.work("w2")
    assert owners(world) == {"w1": 1, None: 1}


def test_a_claim_that_comes_after_the_look_of_a_stopping_worker_is_not_taken_away() -> None:
    """The run of the worker begins its next wave between the tick's look at the rows and the tick's writes."""
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    world.runs.launch("run", "w2")
    world.runs.start("run")
    run = world.a_run("w2", "run")
    run.beat()
    world.rows.set_stopping("w2", stopping=True)
    shard = next(row for row in world.leases.scan().leases if row.owner == "w2")
    apply_all = world.leases.apply_all

    def claim_before_the_writes(changes: Sequence[Change]) -> tuple[Outcome, ...]:
        world.leases.apply_all = apply_all  # type: ignore[method-assign]
        assert isinstance(world.leases.apply(claim(shard, "w2", run.claims.claim)), Applied)
        return apply_all(changes)

    world.leases.apply_all = claim_before_the_writes  # type: ignore[method-assign]
    assert "0 leases given up, 1 lease still being read" in str(world.work("w2"))
    row = world.leases.get(shard.key)
    assert row is not None
    assert (row.owner, row.run_claim) == ("w2", run.claims.claim)
    world.runs.end("run")
    world.work("w2")
    assert owners(world) == {"w1": 1, None: 1}


def test_a_stopping_worker_has_an_old_time_stamp_so_that_kcls_leader_assigns_it_nothing() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    world.rows.set_stopping("w2", stopping=True)
    world.work("w2")
    row = world.rows.get("w2")
    assert row is not None
    assert row.last_update is not None
    assert world.clock.now() - row.last_update > timedelta(seconds=60)
    world.rows.set_stopping("w2", stopping=False)
    row = world.rows.get("w2")
    assert row is not None
    assert row.last_update == world.clock.now().replace(microsecond=0)


def test_rows_of_ended_shards_and_their_ends_are_deleted_in_time() -> None:
    world = World(shards=1)
    world.produce(0, 3)
    world.settle()
    world.source.split(world.shard(0))
    world.wave()
    world.produce(1, 1)
    world.produce(2, 1)
    world.wave("w1", "children")
    assert row_of(world, 0).has_ended
    world.tick(20)
    assert world.leases.get(world.shard(0).shard_id) is not None, "Kinesis still lists the shard"
    world.clock.advance(timedelta(hours=25))
    world.tick(10)
    assert world.leases.get(world.shard(0).shard_id) is None
    assert world.table.load().positions.of(world.shard(0)) is None
    world.tick(20)
    assert world.leases.get(world.shard(0).shard_id) is None, "the sync doesn't make the row again"


def test_a_stopping_leader_releases_the_lock() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    elsewhere = World(workers=("w3",))
    world.rows.set_stopping("w1", stopping=True)
    assert world.lead("w1").leads, "w2 is of the same deployment and goes on working"
    world.rows.set_stopping("w2", stopping=True)
    assert "are stopping, so it doesn't lead" in str(world.lead("w1"))
    assert replace(world.a_leader("w3"), settings=elsewhere.settings).tick(LeaderMemory()).leads


def test_the_row_of_a_worker_that_has_been_dead_for_a_day_is_deleted() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    let_host_die(world, "w2")
    world.clock.advance(timedelta(hours=23))
    world.tick(8)
    assert {row.worker_id for row in world.rows.listing().workers} == {"w1", "w2"}
    world.clock.advance(timedelta(hours=2))
    world.tick(8)
    assert {row.worker_id for row in world.rows.listing().workers} == {"w1"}


def test_a_stopped_worker_is_still_stopped_after_a_day() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    world.rows.set_stopping("w2", stopping=True)
    world.tick(3)
    for _ in range(3):
        world.clock.advance(timedelta(hours=12))
        world.tick(9)
    row = world.rows.get("w2")
    assert row is not None
    assert row.stopping
    assert owners(world) == {"w1": 2}


def test_no_living_workers_row_is_deleted_if_the_leaders_clock_jumps_two_days_ahead() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    world.clock.jump(timedelta(days=2))
    world.lead()
    assert {row.worker_id for row in world.rows.listing().workers} == {"w1", "w2"}


def test_the_leader_reports_that_the_table_was_rolled_back_past_a_parents_end() -> None:
    world = World(shards=1)
    world.settle()
    world.produce(0, 3)
    world.wave()
    before = world.table.load().snapshot
    world.source.split(world.shard(0))
    world.wave("w1", "the-end")
    world.table.rollback(before)
    world.clock.advance(timedelta(seconds=30))
    told = str(world.lead())
    assert "the lease rows of 1 shard say that the shard has ended, and the lake table doesn't" in told
    assert "headrace reposition" in told


def test_only_the_leader_scans() -> None:
    world = World(workers=("w1", "w2"), shards=4)
    world.settle()
    led = 0
    for _ in range(20):
        before = world.leases.scans
        world.lead("w1")
        led += world.leases.scans - before
        before = world.leases.scans
        world.lead("w2")
        world.work("w1")
        world.work("w2")
        assert world.leases.scans == before
        world.clock.advance(TICK)
    assert 5 <= led <= 10, "once for each assignment period and each shard sync"


def test_a_deployment_whose_stream_doesnt_exist_doesnt_take_the_lock() -> None:
    world = World()
    world.source.delete_stream("orders")
    with pytest.raises(Exception, match="orders"):
        world.lead()
    assert world.lock.read() is None


def test_a_deployment_that_cant_read_the_leases_doesnt_take_the_lock() -> None:
    """A leader that can't read the leases could assign none."""
    world = World(workers=("w1", "w2"))
    scan = world.leases.scan

    def refuse() -> Listing:
        raise Throttled("the lease table")

    world.leases.scan = refuse  # type: ignore[method-assign]
    for _ in range(10):
        with pytest.raises(Throttled):
            world.lead("w1")
        world.clock.advance(TICK)
        assert world.lock.read() is None
    world.leases.scan = scan  # type: ignore[method-assign]
    assert world.lead("w2").leads


def test_a_leader_that_ticks_keeps_the_lock() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    for _ in range(40):
        assert world.lead("w1").leads
        assert not world.lead("w2").leads
        world.clock.advance(TICK)
    versions = set()
    for _ in range(3):
        assert world.a_leader("w1").electing.beat(), "the timer of a long tick beats the lock"
        found = world.lock.read()
        versions.add(found.version if found else None)
    assert len(versions) == 3


def test_if_the_leader_beats_but_assigns_nothing_the_other_workers_raise_an_alarm() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    let_host_die(world, "w1")
    counted = world.rows.count_assign_pass
    world.rows.count_assign_pass = lambda worker_id: None  # type: ignore[method-assign]
    alarms = []
    for _ in range(30):
        world.rows.beat("w1", "dagster-1", found="dagster-1")
        world.lead("w1")
        alarms.append(world.work("w2").alarm)
        world.clock.advance(TICK)
    assert alarms[0] is None
    assert alarms[-1] is not None
    assert "w1 holds the leader's lock" in alarms[-1]
    world.rows.count_assign_pass = counted  # type: ignore[method-assign]
    for _ in range(12):
        world.lead("w1")
        last = world.work("w2").alarm
        world.clock.advance(TICK)
    assert last is None


@pytest.mark.parametrize("joined", [False, True])
def test_other_workers_go_on_if_the_leaders_worker_row_isnt_understood(joined: bool) -> None:  # noqa: FBT001
    world = World(workers=("w1", "w2"))
    world.settle()
    if joined:
        shared(world)
    get = world.rows.get

    def find_an_odd_row(worker_id: str) -> Worker | None:
        if worker_id == "w1":
            raise WrongShape("assignPass is of type S, not N")
        return get(worker_id)

    world.rows.get = find_an_odd_row  # type: ignore[method-assign]
    for _ in range(20):
        assert world.work("w2").due
        world.clock.advance(TICK)


def test_a_dead_leader_raises_no_alarm_because_its_lock_expires() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    alarms = []
    for _ in range(30):
        alarms.append(world.work("w2").alarm)
        world.clock.advance(TICK)
    assert set(alarms) == {None}


def test_a_preview_writes_nothing_and_says_what_the_leader_would_do() -> None:
    world = World(workers=("w1",), shards=2)
    world.lead()
    world.work()
    world.clock.advance(TICK)
    before = world.leases.scan()
    duty = world.a_leader()
    first = preview(duty, LeaderMemory())
    world.work()
    second = preview(duty, first.memory)
    assert (first.changes, first.first_steps) == ((), ())
    assert {(c.key, c.put["owner"]) for c in second.changes} == {(row.key, "w1") for row in before.leases}
    assert world.leases.scan() == before
