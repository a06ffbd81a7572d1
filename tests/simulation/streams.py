"""Several streams in one application: one comes up while the fleet is at work, one is taken out of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World


class Streams:
    def __init__(self, world: World) -> None:
        self._world = world

    def start(self) -> None:
        world, rng = self._world, self._world.rng
        if world.plan.added:
            world.sim.after(rng.uniform(60.0, 0.6 * world.plan.storm), self._add)
        if world.plan.removed:
            world.sim.after(rng.uniform(60.0, 0.8 * world.plan.storm), self._take_out)

    def _add(self) -> None:
        from tests.simulation.world import NAMES

        world = self._world
        name = NAMES[len(world.truth.living)]
        world.create_stream(name)
        world.note("a person", f"stream {name} is there now")
        world.weather.bites["stream_added"] += 1
        if not world.plan.discovered:
            self._say_so()

    def _take_out(self) -> None:
        world = self._world
        if len(world.truth.living) == 1:
            return
        name = list(world.truth.living)[-1]
        world.truth.unasked[name] = world.sim.now
        world.note("a person", f"stream {name} is taken out of the settings")
        world.weather.bites["stream_removed"] += 1
        self._say_so()

    def _say_so(self) -> None:
        """Each deployment gets its new settings a little later."""
        for deployment in self._world.deployments:
            self._world.sim.after(self._world.rng.uniform(0.0, 30.0), deployment.learn)
