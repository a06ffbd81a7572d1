"""A worker's row says since when its sensor ticks, so that nobody takes a shard for read into which nobody has looked yet."""

from datetime import timedelta

from headrace.pipeline.core.leases.lag import LivingWorker, LivingWorkers, open_lags, readers_among
from headrace.pipeline.core.leases.worker import Worker
from tests.duties.world import TICK, World

_OUTAGE = timedelta(seconds=75)


def _world() -> World:
    world = World(shards=2)
    world.settle()
    world.wave()
    world.tick(30)
    return world


def _row(world: World) -> Worker:
    row = world.rows.get("w1")
    assert row is not None
    return row


def _readers(world: World) -> LivingWorkers:
    return readers_among(["w1"], [_row(world)])


def _lags(world: World) -> set[timedelta | None]:
    rows = world.leases.scan().leases
    return set(open_lags(rows, world.clock.now(), readers=_readers(world)).values())


def test_after_an_outage_nobody_takes_an_idle_shard_for_read_before_its_worker_can_have_looked() -> None:
    world = _world()
    assert _lags(world) == {timedelta(0)}
    world.clock.advance(_OUTAGE)
    world.produce(0, landed=False)
    world.work()
    assert _lags(world) == {None}


def test_a_shard_that_was_read_since_the_outage_has_a_known_lag() -> None:
    world = _world()
    world.clock.advance(_OUTAGE)
    world.work()
    world.clock.advance(TICK)
    world.produce(0)
    world.produce(1)
    world.work()
    world.wave(run="after")
    assert _lags(world) == {timedelta(0)}


def test_a_minute_after_the_outage_the_lag_of_idle_shards_is_known_again() -> None:
    world = _world()
    world.clock.advance(_OUTAGE)
    world.work()
    back = world.clock.now()
    for _ in range(11):
        world.clock.advance(TICK)
        world.work()
    assert (_readers(world), _lags(world)) == ({"w1": LivingWorker(back)}, {None})
    world.clock.advance(TICK)
    world.work()
    assert (_readers(world), _lags(world)) == ({"w1": LivingWorker()}, {timedelta(0)})


def test_slow_ticks_are_no_outage() -> None:
    world = _world()
    world.work()
    since = _row(world).ticking_since
    for _ in range(3):
        world.clock.advance(2 * world.settings.times.lease_duration)
        world.work()
    assert _row(world).ticking_since == since
