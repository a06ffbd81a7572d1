"""Leases change hands: a worker died, one came, one is stopping, one is asked to hand over."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.core.change import Applied, claim, initiate_handover
from pipeline.core.lease import Lease
from pipeline.duties.leader_tick import LeaderMemory
from pipeline.duties.wave import Arrow
from pipeline.settings import Heartbeat
from tests.duties.world import TICK, World


def owners(world: World) -> dict[str | None, int]:
    return dict(Counter(row.owner for row in world.leases.scan().leases))


def row_of(world: World, shard: int) -> Lease:
    row = world.leases.get(world.shard(shard).shard_id)
    assert row is not None
    return row


def without(world: World, worker: str) -> None:
    """Its host dies: no sensor of it ticks any more."""
    world.workers = tuple(w for w in world.workers if w != worker)


def ticks_until(world: World, happened: object, most: int = 40) -> int:
    for ticks in range(most):
        if happened():  # type: ignore[operator]
            return ticks
        world.tick()
    raise AssertionError(f"it didn't happen in {most} ticks")


def in_lease_mode(world: World) -> World:
    coordination = replace(world.settings.coordination, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, coordination=coordination)
    return world


@pytest.mark.parametrize("beside", [World, lambda **k: in_lease_mode(World(**k))])
def test_the_leases_of_a_dead_worker_go_to_the_living_within_the_duration_and_four_ticks(beside) -> None:
    world = beside(workers=("w1", "w2"), shards=4)
    world.settle()
    assert owners(world) == {"w1": 2, "w2": 2}
    without(world, "w2")
    world.work("w1")
    taken = ticks_until(world, lambda: owners(world) == {"w1": 4})
    slack = (
        4 if world.settings.coordination.heartbeat is Heartbeat.WORKER else 8
    )  # leases are looked at every 20 s
    assert timedelta(seconds=20) <= (taken + 1) * TICK <= timedelta(seconds=20) + slack * TICK
    assert len(world.work("w1").due) == 4


@pytest.mark.parametrize("beside", [World, lambda **k: in_lease_mode(World(**k))])
def test_a_living_workers_leases_stay_in_calm(beside) -> None:
    world = beside(workers=("w1", "w2"), shards=4)
    world.settle()
    before = {row.key: row.owner for row in world.leases.scan().leases}
    world.tick(120)
    rows = world.leases.scan().leases
    assert {row.key: row.owner for row in rows} == before
    beaten = world.settings.coordination.heartbeat is Heartbeat.LEASE
    assert {row.counter for row in rows} == ({122} if beaten else {1}), "by heartbeats, and nothing else"


def test_in_lease_mode_a_run_beats_the_rows_that_it_reads() -> None:
    world = in_lease_mode(World(shards=1))
    world.settle()
    run, counters = world.a_run(), []

    def look(arrow: Arrow, _keys: tuple[str, ...]) -> None:
        counters.append(row_of(world, 0).counter)
        run.beat()
        counters.append(row_of(world, 0).counter)

    run.on_arrow = look
    run.wave()
    assert counters[1] == counters[0] + 1


def test_a_worker_whose_row_was_deleted_is_given_nothing_until_it_beats_again() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    world.rows.wipe("w2")
    without(world, "w2")
    world.leases = type(world.leases)([replace(row, owner=None) for row in world.leases.scan().leases])
    world.leader_memory["w1"] = replace(world.leader_memory["w1"], last_sync=None)
    world.lead()
    assert owners(world) == {"w1": 2}


def test_a_worker_whose_run_beats_lives_though_its_sensor_is_silent() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    run = world.a_run("w2")
    without(world, "w2")
    for _ in range(20):
        run.beat()
        world.tick()
    assert owners(world) == {"w1": 1, "w2": 1}


def test_an_owner_that_has_no_row_at_all_is_dead_after_the_duration() -> None:
    world = World(workers=("w1",), shards=2)
    world.settle()
    row = row_of(world, 1)
    world.leases = type(world.leases)([row_of(world, 0), replace(row, owner="nobody-knows-me")])
    ticks_until(world, lambda: owners(world) == {"w1": 2})


def test_a_worker_that_comes_gets_its_share_at_once_and_nothing_moves_after_it() -> None:
    world = World(workers=("w1",), shards=6)
    world.settle()
    assert owners(world) == {"w1": 6}
    world.workers = ("w1", "w2")
    assert ticks_until(world, lambda: owners(world) == {"w1": 3, "w2": 3}) <= 3
    world.tick(40)
    assert max(row.counter for row in world.leases.scan().leases) <= 2


def test_a_shard_that_is_being_read_is_handed_over_after_its_wave_and_read_on_by_the_next_owner() -> None:
    world = World(workers=("w1",), shards=1)
    world.settle()
    world.produce(0, 5)
    run = world.a_run("w1")
    world.runs.launch("run", "w1")
    world.runs.start("run")

    def ask(arrow: Arrow, _keys: tuple[str, ...]) -> None:
        if arrow is Arrow.STAGED:
            asked = initiate_handover(row_of(world, 0), "w2", "a test")
            assert isinstance(world.leases.apply(asked), Applied)

    run.on_arrow = ask
    report = run.wave()
    assert report.rows == 5
    assert not report.problems
    row = row_of(world, 0)
    assert (row.owner, row.checkpoint_owner, row.run_claim) == ("w2", None, None)
    assert row.checkpoint.is_digits, "its last wave was landed and checkpointed whole"
    world.workers = ("w1", "w2")
    world.produce(0, 5)
    assert world.wave("w2", "run-2").rows == 5
    world.check()


def test_nobody_claims_a_shard_that_is_being_handed_over() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    world.work("w1")
    assert isinstance(world.leases.apply(initiate_handover(row_of(world, 0), "w2", "a test")), Applied)
    assert world.wave("w1").claimed == 0
    assert world.wave("w2").claimed == 0
    assert not world.work("w2").due


def test_the_holder_hands_over_an_idle_shard_at_its_next_tick_though_the_index_hides_it() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    world.work("w1")
    assert isinstance(world.leases.apply(initiate_handover(row_of(world, 0), "w2", "a test")), Applied)
    assert "1 shards handed over" in str(world.work("w1"))
    assert row_of(world, 0).holder == "w2"
    assert [d.lease_key for d in world.work("w2").due] == [row_of(world, 0).key]


def test_a_handover_that_its_holder_has_forgotten_is_completed_by_the_leader_where_nobody_reads() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    assert isinstance(world.leases.apply(initiate_handover(row_of(world, 0), "w2", "a test")), Applied)
    world.worker_memory.clear()  # a code reload
    assert ticks_until(world, lambda: row_of(world, 0).checkpoint_owner is None) <= 5
    assert row_of(world, 0).owner == "w2"


def test_a_handover_that_its_holder_never_completes_is_forced_after_the_deadline() -> None:
    world = World(workers=("w1", "w2"), shards=1)
    world.settle()
    world.runs.launch("run", "w1")
    world.runs.start("run")
    run = world.a_run("w1", "run")
    claimed = world.leases.apply(claim(row_of(world, 0), "w1", run.claims.claim))
    assert isinstance(claimed, Applied)
    assert isinstance(world.leases.apply(initiate_handover(claimed.lease, "w2", "a test")), Applied)
    run.beat()

    def handed() -> bool:
        run.beat()
        return row_of(world, 0).checkpoint_owner is None

    took = ticks_until(world, handed)
    assert timedelta(seconds=90) < took * TICK <= timedelta(seconds=150)
    assert row_of(world, 0).owner == "w2"
    assert row_of(world, 0).run_claim is None, "what the old run still brings is refused"


def test_a_holder_that_dies_in_a_handover_leaves_the_shard_to_the_named_owner() -> None:
    world = World(workers=("w1", "w2", "w3"), shards=3)
    world.settle()
    shard = next(row for row in world.leases.scan().leases if row.owner == "w3")
    assert isinstance(world.leases.apply(initiate_handover(shard, "w2", "a test")), Applied)
    without(world, "w3")

    def taken() -> bool:
        row = world.leases.get(shard.key)
        return row is not None and row.checkpoint_owner is None

    ticks_until(world, taken)
    row = world.leases.get(shard.key)
    assert row is not None
    assert row.owner == "w2"


def test_a_next_owner_that_dies_before_its_turn_is_replaced() -> None:
    world = World(workers=("w1", "w2", "w3"), shards=3)
    world.settle()
    shard = next(row for row in world.leases.scan().leases if row.owner == "w2")
    world.runs.launch("run", "w2")
    world.runs.start("run")
    run = world.a_run("w2", "run")
    claimed = world.leases.apply(claim(shard, "w2", run.claims.claim))
    assert isinstance(claimed, Applied)
    assert isinstance(world.leases.apply(initiate_handover(claimed.lease, "w3", "a test")), Applied)
    without(world, "w3")

    def renamed() -> bool:
        run.beat()
        row = world.leases.get(shard.key)
        return row is not None and row.owner != "w3"

    assert ticks_until(world, renamed) * TICK <= timedelta(seconds=45)


def test_a_stopping_worker_gives_its_leases_up_and_another_has_them_within_two_ticks() -> None:
    world = World(workers=("w1", "w2"), shards=4)
    world.settle()
    world.rows.set_stopping("w2", stopping=True)
    assert ticks_until(world, lambda: owners(world) == {"w1": 4}) <= 2
    assert "`headrace stop --cancel`" in str(world.work("w2"))
    scans = world.leases.scans
    world.tick(3)
    assert world.leases.scans - scans <= 2, "a worker that stopped is no news at every tick"
    world.rows.set_stopping("w2", stopping=False)
    assert ticks_until(world, lambda: owners(world) == {"w1": 2, "w2": 2}) <= 4


def test_a_stopping_worker_waits_for_the_end_of_its_runs_wave() -> None:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    world.runs.launch("run", "w2")
    world.runs.start("run")
    run = world.a_run("w2", "run")
    run.beat()
    shard = next(row for row in world.leases.scan().leases if row.owner == "w2")
    assert isinstance(world.leases.apply(claim(shard, "w2", run.claims.claim)), Applied)
    world.rows.set_stopping("w2", stopping=True)
    assert "1 wait for the end of their wave" in str(world.work("w2"))
    assert owners(world) == {"w1": 1, "w2": 1}
    world.runs.end("run")
    world.work("w2")
    assert owners(world) == {"w1": 1, None: 1}


def test_a_stopping_workers_stamp_is_old_so_that_kcls_leader_gives_it_nothing() -> None:
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


def test_rows_of_ended_shards_and_their_ends_in_the_table_are_cleared_away_in_time() -> None:
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
    assert world.leases.get(world.shard(0).shard_id) is not None, "its shard is still listed"
    world.clock.advance(timedelta(hours=25))
    world.tick(10)
    assert world.leases.get(world.shard(0).shard_id) is None
    assert world.table.load().positions.of(world.shard(0)) is None
    world.tick(20)
    assert world.leases.get(world.shard(0).shard_id) is None, "nor does the sync bring it back"


def test_a_stopping_leader_lets_go_of_the_lock() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    elsewhere = World(workers=("w3",))
    world.rows.set_stopping("w1", stopping=True)
    assert world.lead("w1").leads, "w2 is of this deployment and works on"
    world.rows.set_stopping("w2", stopping=True)
    assert "stopping, another one leads" in str(world.lead("w1"))
    assert replace(world.a_leader("w3"), settings=elsewhere.settings).tick(LeaderMemory()).leads


def test_the_row_of_a_worker_that_has_been_gone_for_a_day_is_deleted() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    without(world, "w2")
    world.clock.advance(timedelta(hours=23))
    world.tick(8)
    assert {row.worker_id for row in world.rows.list()} == {"w1", "w2"}
    world.clock.advance(timedelta(hours=2))
    world.tick(8)
    assert {row.worker_id for row in world.rows.list()} == {"w1"}


def test_a_stopped_worker_stays_stopped_after_a_day_too() -> None:
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


def test_a_leaders_clock_that_jumps_a_day_ahead_deletes_no_living_workers_row() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    world.clock.jump(timedelta(days=2))
    world.lead()
    assert {row.worker_id for row in world.rows.list()} == {"w1", "w2"}


def test_a_handover_of_more_than_a_hundred_idle_leases_loses_sight_of_none() -> None:
    world = in_lease_mode(World(workers=("w1",), shards=300))
    world.settle()
    world.workers = ("w1", "w2")
    world.tick(8)
    assert owners(world) == {"w1": 150, "w2": 150}
    assert all(row.checkpoint_owner is None for row in world.leases.scan().leases)


def test_a_rollback_past_a_parents_end_is_told_by_the_leader() -> None:
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
    assert "1 ended shards" in told
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
    assert 5 <= led <= 10, "every assignment period and every shard sync"


def test_a_leader_that_cant_lead_doesnt_take_the_lock() -> None:
    world = World()
    world.source.delete_stream("orders")
    with pytest.raises(Exception, match="orders"):
        world.lead()
    assert world.lock.read() is None


def test_a_leader_that_ticks_keeps_the_lock() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    for _ in range(40):
        assert world.lead("w1").leads
        assert not world.lead("w2").leads
        world.clock.advance(TICK)
    versions = set()
    for _ in range(3):
        assert world.a_leader("w1").beat_lock(), "on a timer, in a long tick"
        found = world.lock.read()
        versions.add(found.version if found else None)
    assert len(versions) == 3


def test_a_leader_that_beats_but_assigns_nothing_raises_every_workers_alarm() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    without(world, "w1")
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


def test_a_leader_that_died_is_no_alarm_its_lock_expires() -> None:
    world = World(workers=("w1", "w2"))
    world.settle()
    alarms = []
    for _ in range(30):
        alarms.append(world.work("w2").alarm)
        world.clock.advance(TICK)
    assert set(alarms) == {None}


def test_a_preview_writes_nothing_and_tells_what_the_leader_would_do() -> None:
    world = World(workers=("w1",), shards=2)
    world.lead()
    world.work()
    world.clock.advance(TICK)
    before = world.leases.scan()
    duty = world.a_leader()
    seen, first = duty.preview(LeaderMemory())
    world.work()
    _, second = duty.preview(seen)
    assert first == ()
    assert {(c.key, c.put["owner"]) for c in second} == {(row.key, "w1") for row in before.leases}
    assert world.leases.scan() == before
