"""Long stretches of a plan: a fleet that is dark for longer than the retention, and hours or a day of quiet after the storm.

Virtual time costs nothing where nothing happens, but sensors tick every five seconds, whatever happens: a day of two hosts
would be 70,000 ticks. So in a quiet stretch the daemon's loop is slower: about 300 rounds of ticks, however long it is
(every 24 s in two hours, every five minutes in a day). All other times of the settings are the defaults, those of the
clean-up and of former streams too, which are shorter in seeds without such a stretch. Expiry goes by credit, a tick and a
half a look at most, so that slower looks condemn nobody; only counters of single leases would (`heartbeat: lease`), and such
a fleet has none of these stretches.

    storm -> a minute of traffic -> quiet: a record now and then, a reshard, a host that dies for good -> traffic -> calm
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World

TICK = 5.0
_ROUNDS = 300
"""Of ticks, in a quiet stretch."""
_MORNING = 60.0
"""Seconds of traffic after it."""
_HOUR = 3600.0


class Quiet:
    def __init__(self, world: World) -> None:
        self._world = world

    def pass_by(self) -> None:
        """From outside of the scheduler: it runs the world through the stretch."""
        world, rng, quiet = self._world, self._world.rng, self._world.plan.quiet
        world.note("world", f"{timedelta(seconds=round(quiet))} of quiet begin")
        world.weather.bites["quiet_hours"] += round(quiet / _HOUR)
        world.pace = max(TICK, quiet / _ROUNDS)
        for _ in range(rng.choice((0, 1, 2, 4))):
            world.sim.after(rng.uniform(0.0, quiet), self._one_record)
        if rng.random() < 0.6:
            world.sim.after(rng.uniform(0.0, 0.1 * quiet), world.reshard)
        if rng.random() < 0.7:
            world.sim.after(rng.uniform(0.0, 0.05 * quiet), self._lose_a_host)
        world.sim.run(world.sim.now + quiet)
        world.pace = TICK
        world.note("world", "the quiet is over")

    def wake_up(self) -> None:
        world = self._world
        world.puts_until = world.sim.now + _MORNING
        world.produce()
        world.sim.run(world.sim.now + _MORNING)

    def _one_record(self) -> None:
        self._world.put(self._world.rng.choice(self._world.truth.open_shards()))

    def _lose_a_host(self) -> None:
        world = self._world
        alive = [host for host in world.hosts if host.alive]
        stopping = {row.worker_id for row in world.workers.listing().workers if row.stopping}
        at_work = [d for d in world.deployments if d.is_up and not stopping.issuperset(d.workers)]
        if len(alive) < 2 or len(at_work) < 2:
            return
        host = world.rng.choice(at_work).host
        world.note("trouble", f"host {host.name} dies for good")
        world.lose(host)


class Dark:
    """All hosts are off for longer than the retention; the stream goes on, splits, merges, or is made anew."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start(self) -> None:
        plan, rng = self._world.plan, self._world.rng
        begins = rng.uniform(60.0, max(61.0, plan.storm - plan.dark - 30.0))
        self._world.sim.at(begins, self._fall)

    def _fall(self) -> None:
        world, rng = self._world, self._world.rng
        world.note("trouble", f"all hosts are off for {world.plan.dark:.0f} s")
        world.weather.bites["dark"] += 1
        world.dark_until = world.sim.now + world.plan.dark
        for host in world.hosts:
            if host.alive:
                world.lose(host)
        for _ in range(rng.choice((1, 2, 3))):
            world.sim.after(rng.uniform(0.0, 0.7 * world.plan.dark), world.reshard)
        if rng.random() < 0.3:
            world.sim.after(rng.uniform(0.0, 0.2 * world.plan.dark), world.recreate)
        world.sim.at(world.dark_until, self._rise)

    def _rise(self) -> None:
        world = self._world
        for host in world.hosts:
            world.revive(host)
