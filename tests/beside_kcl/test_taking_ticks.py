"""`kcl.mode: 2.x` in the ticks of workers and leader."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.kcl.leader import order_of_leadership
from headrace.pipeline.kcl.migration import ClientVersion
from headrace.pipeline.settings.choices import Heartbeat, Mode
from tests.duties.world import TICK, World


def joined(world: World, mode: Mode) -> World:
    """From now on the settings join a fleet in this mode."""
    kcl = replace(
        world.settings.kcl,
        mode=mode,
        failover=timedelta(seconds=20),
        heartbeat=Heartbeat.LEASE,
        allow_foreign_checkpoints=True,
    )
    world.settings = replace(world.settings, kcl=kcl)
    return world


def a_world(workers: tuple[str, ...] = ("w1", "w2"), shards: int = 4) -> World:
    world = World(workers=workers, shards=shards)
    kcl = replace(world.settings.kcl, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, kcl=kcl)
    return world


def owners(world: World) -> dict[str | None, int]:
    return dict(Counter(row.owner for row in world.leases.scan().leases))


def leading_alone(world: World) -> list[str]:
    """The workers that lead, if each one is the only worker of its deployment."""
    settings = world.settings
    world.leader_memory.clear()
    leads = []
    for worker in settings.workers:
        world.settings = replace(settings, workers=(worker,))
        if world.lead(worker.id).leads:
            leads.append(worker.id)
    world.settings = settings
    return leads


def test_workers_take_leases_until_each_has_its_share_and_reads_it():
    world = a_world()
    world.tick(40)
    assert owners(world) == {"w1": 2, "w2": 2}
    for shard in range(4):
        world.produce(shard, 5)
    assert sum(world.wave(worker, f"run-{worker}").rows for worker in ("w1", "w2")) == 20
    world.check()
    before = {row.key: row.owner for row in world.leases.scan().leases}
    world.tick(60)
    assert {row.key: row.owner for row in world.leases.scan().leases} == before


def test_no_leader_assigns_leases_and_none_takes_the_lock():
    world = a_world()
    world.tick(40)
    assert world.lock.read() is None
    assert all(row.assign_pass == 0 for row in world.rows.listing().workers)


def test_with_several_streams_too_only_the_first_worker_in_the_shuffled_order_leads():
    world = World(workers=("w1", "w2"), more_streams=("returns",))
    kcl = replace(world.settings.kcl, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, kcl=kcl)
    world.tick(40)
    assert owners(world) == {"w1": 2, "w2": 2}
    assert leading_alone(world) == [order_of_leadership(("w1", "w2"))[0]]


def test_a_dead_workers_leases_are_taken_by_the_other_worker():
    world = a_world()
    world.tick(40)
    world.workers = ("w1",)
    world.tick(24)
    assert owners(world) == {"w1": 4}


def test_only_the_deployment_of_the_first_worker_in_the_shuffled_order_leads():
    world = a_world(("w1", "w2", "w3"), shards=6)
    world.tick(60)
    assert set(owners(world)) == {"w1", "w2", "w3"}
    assert leading_alone(world) == [order_of_leadership(("w1", "w2", "w3"))[0]]


def test_a_deployment_neither_leads_nor_assigns_while_the_fleet_it_joined_runs_in_another_mode():
    world = joined(World(workers=("w1",), shards=2), Mode.OWN)
    world.tables.version = ClientVersion.ROLLED_BACK
    world.tick(3)
    told = str(world.lead())
    assert "CLIENT_VERSION_2X, which needs kcl.mode: 2.x" in told
    assert world.lock.read() is None
    assert world.leases.scan().leases == ()
    world.tables.version = ClientVersion.V3
    world.tick(3)
    assert owners(world) == {"w1": 2}
    world.tables.version = ClientVersion.UPGRADE_FROM_2X
    assert not world.lead().leads
    assert world.lock.read() is None, "the deployment releases the lock at once"


def test_a_worker_in_mode_2_x_takes_no_lease_where_the_fleet_has_a_leader():
    world = joined(World(workers=("w1",), shards=2), Mode.KCL_2)
    world.tick(3)
    world.tables.version = ClientVersion.WITH_ROLLBACK
    world.leases = type(world.leases)([replace(row, owner=None) for row in world.leases.scan().leases])
    world.clock.advance(timedelta(minutes=2))
    assert "CLIENT_VERSION_3X_WITH_ROLLBACK" in str(world.work())
    assert owners(world) == {None: len(world.leases.scan().leases)}


def kcl_renews(world: World, key: str, owner: str) -> None:
    world.leases.apply(Change(key, owner, put={"owner": owner}, add={"counter": 1}, kind=ChangeKind.TAKE))


def test_a_worker_that_restarts_beside_a_kcl_worker_goes_on_beating_its_own_leases():
    world = a_world(("w1",))
    world.tick(40)
    kcls = world.shard(0).shard_id
    world.worker_memory.clear()
    for _ in range(20):
        kcl_renews(world, kcls, "kcl-1")
        before = {row.key: row.counter for row in world.leases.scan().leases}
        assert "(kcl-1)" in str(world.work())
        world.clock.advance(TICK)
    after = {row.key: row.counter for row in world.leases.scan().leases}
    assert [key for key in after if after[key] == before[key]] == [kcls]


def test_a_worker_that_restarts_in_a_fleet_of_another_mode_goes_on_beating_its_own_leases():
    world = joined(World(workers=("w1",), shards=4), Mode.KCL_2)
    world.tick(40)
    world.tables.version = ClientVersion.WITH_ROLLBACK
    world.worker_memory.clear()
    for _ in range(20):
        before = {row.key: row.counter for row in world.leases.scan().leases}
        assert "it goes on reading those that it has" in str(world.work())
        world.clock.advance(TICK)
    assert all(row.counter > before[row.key] for row in world.leases.scan().leases)


def test_an_owner_whose_worker_row_isnt_understood_doesnt_count_as_a_kcl_worker():
    world = a_world()
    world.tick(40)
    theirs = [row.key for row in world.leases.scan().leases if row.owner == "w2"]
    world.rows.wipe("w2")
    world.rows.hold_odd_row("w2", "broken")
    world.workers = ("w1",)
    world.worker_memory.clear()
    for _ in range(20):  # a run of w2 reads on
        for key in theirs:
            kcl_renews(world, key, "w2")
        assert "KCL" not in str(world.work())
        world.clock.advance(TICK)
