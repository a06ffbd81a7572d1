"""How long a run for named shards waits for shards that it can't claim."""

from datetime import timedelta

from headrace.pipeline.core.leases.change import Applied, assign, claim, create
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.waves.run import Run
from tests.duties.world import World


def a_run(world: World) -> Run:
    world.runs.launch("asked", "w1")
    world.runs.start("asked")
    return Run(
        attempt=world.a_run("w1", "asked"),
        settings=world.settings,
        clock=world.clock,
        on_wave=lambda _: None,
        is_stopping=lambda: False,
    )


def catch_up(world: World, *shards: int) -> tuple[dict[str, str], timedelta]:
    """Let a run read these shards. Returns why it missed some of them, and how long it took."""
    began = world.clock.now()
    missed = a_run(world).catch_up(tuple(world.shard(n).shard_id for n in shards))
    return missed, world.clock.now() - began


def test_a_run_doesnt_wait_for_a_shard_that_moved_to_another_worker():
    world = World()
    world.settle()
    world.produce(0, 3)
    world.produce(1, 3)
    row = world.leases.get(world.shard(1).shard_id)
    assert row is not None
    assert isinstance(world.leases.apply(assign(row, "w2", "a test")), Applied)

    missed, took = catch_up(world, 0, 1)

    assert missed == {row.key: "worker w2 holds the shard's lease, not w1"}
    assert took <= timedelta(seconds=30)
    assert len(world.landed()) == 3


def test_a_run_waits_only_briefly_for_a_shard_whose_parent_comes_first():
    world = World(shards=1)
    world.settle()
    world.produce(0, 3)
    child, _ = world.source.split(world.shard(0))
    world.lead()
    parents = frozenset({world.shard(0).shard_id})
    row = Lease(child.shard_id, owner="w1", parents=parents, stream_epoch=world.stream.epoch)
    assert isinstance(world.leases.apply(create(row, "a test")), Applied)

    missed, took = catch_up(world, 1)

    assert list(missed) == [child.shard_id]
    assert took <= timedelta(seconds=30)


def test_a_run_waits_for_the_linger_time_for_a_shard_that_another_run_is_reading():
    world = World(shards=1)
    world.settle()
    row = world.leases.get(world.shard(0).shard_id)
    assert row is not None
    world.runs.launch("other", "w1")
    assert isinstance(world.leases.apply(claim(row, "w1", "other/1")), Applied)

    missed, took = catch_up(world, 0)

    assert "run other is reading the shard" in missed[row.key]
    assert took > world.settings.times.linger
