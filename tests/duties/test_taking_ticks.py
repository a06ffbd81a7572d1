"""`coordination.mode: 2.x` in the ticks."""

from collections import Counter
from dataclasses import replace

from pipeline.settings import Heartbeat, Mode
from tests.duties.world import World


def a_world(workers: tuple[str, ...] = ("w1", "w2"), shards: int = 4) -> World:
    world = World(workers=workers, shards=shards)
    coordination = replace(world.settings.coordination, mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, coordination=coordination)
    return world


def owners(world: World) -> dict[str | None, int]:
    return dict(Counter(row.owner for row in world.leases.scan().leases))


def test_workers_help_themselves_until_each_has_its_share_and_read_it():
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


def test_no_leader_gives_anything_out_and_none_takes_the_lock():
    world = a_world()
    world.tick(40)
    assert world.lock.read() is None
    assert all(row.assign_pass == 0 for row in world.rows.list())


def test_the_leases_of_a_dead_worker_are_taken_by_the_other_one():
    world = a_world()
    world.tick(40)
    world.workers = ("w1",)
    world.tick(24)
    assert owners(world) == {"w1": 4}


def test_the_leader_is_the_first_of_the_shuffled_owners():
    world = a_world()
    world.tick(40)
    said = {worker: world.lead(worker).leads for worker in ("w1", "w2")}
    assert sum(said.values()) >= 1
