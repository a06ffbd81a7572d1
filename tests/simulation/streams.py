"""Several streams in one application: one is created while the fleet is at work, one is taken out of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World


class Streams:
    """Creates one stream and takes one out of the settings, where the plan says so."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start(self) -> None:
        world, rng = self._world, self._world.rng
        if world.plan.added:
            world.sim.after(rng.uniform(60.0, 0.6 * world.plan.fault_seconds), self._add)
        if world.plan.removed:
            world.sim.after(rng.uniform(60.0, 0.8 * world.plan.fault_seconds), self._take_out)

    def _add(self) -> None:
        from tests.simulation.world import NAMES

        world = self._world
        name = NAMES[len(world.truth.living)]
        world.create_stream(name)
        world.note("a person", f"creates stream {name}")
        world.call_faults.happened["stream_added"] += 1
        if not world.plan.discovered:
            self._send_settings()

    def _take_out(self) -> None:
        world = self._world
        if len(world.truth.living) == 1:
            return
        name = list(world.truth.living)[-1]
        world.truth.taken_out[name] = world.sim.now
        world.note("a person", f"takes stream {name} out of the settings")
        world.call_faults.happened["stream_removed"] += 1
        self._send_settings()

    def _send_settings(self) -> None:
        """Give each deployment its new settings, each a little later than the others."""
        for deployment in self._world.deployments:
            self._world.sim.after(self._world.rng.uniform(0.0, 30.0), deployment.learn)
        if self._world.application is not None:
            self._world.application.learn()
