"""Long stretches of a plan: all hosts off for longer than the retention, and hours or a day with few records.

Virtual time costs nothing while nothing happens, but sensors tick every five seconds in any case: a day of two hosts
would be 70,000 ticks. So in a quiet stretch sensors tick less often, about 200 times however long the stretch is
(every 36 s in two hours, every eight minutes in a day). All times of the settings are the defaults then; in seeds
without such a stretch, those of the clean-up and of former streams are shorter. Slow ticks make no living worker look
dead, because a look adds a tick and a half of credit at most. That isn't so for counters of single leases
(`heartbeat: lease`), so such a fleet has no quiet stretch.

    faults -> half a minute of traffic -> quiet: few records, a reshard, a host that dies for good -> traffic -> settling
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World

TICK = 5.0
_ROUNDS = 200
"""How often sensors tick in a quiet stretch: a leader that did not tick for ten minutes starts the waits for former streams again."""
_TRAFFIC_AFTER = 60.0
"""Seconds of traffic after a quiet stretch."""
_HOUR = 3600.0


class Quiet:
    """A quiet stretch after the faults."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run_through(self) -> None:
        """Run the world through the stretch. No task may call this, because it runs the scheduler."""
        world, rng, quiet = self._world, self._world.rng, self._world.plan.quiet
        world.note("world", f"a quiet stretch of {timedelta(seconds=round(quiet))} begins")
        world.call_faults.happened["quiet_hours"] += round(quiet / _HOUR)
        world.pace, world.quiet_until = max(TICK, quiet / _ROUNDS), world.sim.now + quiet
        for _ in range(rng.choice((0, 1, 2, 4))):
            world.sim.after(rng.uniform(0.0, quiet), self._one_record)
        if rng.random() < 0.6:
            world.sim.after(rng.uniform(0.0, 0.1 * quiet), world.reshard)
        if rng.random() < 0.7:
            world.sim.after(rng.uniform(0.0, 0.05 * quiet), self._lose_a_host)
        world.sim.run(world.sim.now + quiet)
        world.pace = TICK
        world.note("world", "the quiet stretch is over")

    def resume_traffic(self) -> None:
        world = self._world
        world.puts_until = world.sim.now + _TRAFFIC_AFTER
        world.produce()
        world.sim.run(world.sim.now + _TRAFFIC_AFTER)

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


class AllHostsOff:
    """All hosts are off for longer than the retention. Meanwhile records are put, and the stream is split, merged
    or recreated."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start(self) -> None:
        plan, rng = self._world.plan, self._world.rng
        begins = rng.uniform(60.0, max(61.0, plan.fault_seconds - plan.hosts_off - 30.0))
        self._world.sim.at(begins, self._switch_off)

    def _switch_off(self) -> None:
        world, rng = self._world, self._world.rng
        world.note("trouble", f"all hosts are off for {world.plan.hosts_off:.0f} s")
        world.call_faults.happened["hosts_off"] += 1
        world.hosts_off_until = world.sim.now + world.plan.hosts_off
        for host in world.hosts:
            if host.alive:
                world.lose(host)
        for _ in range(rng.choice((1, 2, 3))):
            world.sim.after(rng.uniform(0.0, 0.7 * world.plan.hosts_off), world.reshard)
        if rng.random() < 0.3:
            world.sim.after(rng.uniform(0.0, 0.2 * world.plan.hosts_off), world.recreate)
        world.sim.at(world.hosts_off_until, self._switch_on)

    def _switch_on(self) -> None:
        world = self._world
        for host in world.hosts:
            world.revive(host)
