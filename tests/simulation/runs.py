"""What assets/records.py does with a run, in a process of its own that may die at any moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from assets.waves import Run
from pipeline.core.due import RunState
from pipeline.duties.claims import Claims
from pipeline.duties.consume import Consumption
from pipeline.duties.wave import Arrow, WaveReport
from pipeline.errors import HeadraceError, Transient
from tests.simulation.instance import Instance, Runs
from tests.simulation.machine import Host
from tests.simulation.ports import Door, Leases, Source, Stage, Table, Workers
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.hosts import Deployment
    from tests.simulation.world import World


class Beating:
    """`resources.beating`: a timer of the same process beside its work."""

    def __init__(
        self,
        world: World,
        process: Process,
        beat: Callable[[], object],
        *,
        every: float,
        at_most: float = 1e9,
    ) -> None:
        self._world = world
        self._process = process
        self._beat = beat
        self._every = every
        self._until = world.sim.now + at_most
        self._on = True
        world.sim.after(every, self._fire)

    def stop(self) -> None:
        self._on = False

    def _fire(self) -> None:
        sim = self._world.sim
        if not self._on or not self._process.alive or sim.now >= self._until:
            return
        if self._process.frozen_until > sim.now:
            sim.at(min(self._process.frozen_until, sim.now + 5.0), self._fire)
            return
        sim.after(self._every, self._fire)
        sim.spawn(self._process, self._once)

    def _once(self) -> None:
        with suppress(HeadraceError):
            self._beat()


class RunAtWork:
    """What assets/records.py does, in a process of its own."""

    def __init__(
        self,
        deployment: Deployment,
        run_id: str,
        worker: str,
        host: Host,
        *,
        over: tuple[str, ...],
        later: tuple[str, ...],
        keys: tuple[str, ...] | None,
        instance: Instance | None,
    ) -> None:
        self.deployment = deployment
        self.world = deployment.world
        self.instance = instance
        self.run_id = run_id
        self.worker = worker
        self.host = host
        self.keys = keys
        self.last_claimed: tuple[str, ...] = ()
        self.process = self.world.a_process(f"{run_id}@{host.name}", host, worker)
        self.process.claim = f"{run_id}/{self.world.ids.fresh()}"
        self.process.on_death = self._on_death
        self.consumption = self._consumption(frozenset(over), frozenset(later))
        self.world.runs[self.process.claim] = self
        self.world.tally.runs += 1
        self.world.sim.spawn(self.process, self._work, self.world.rng.uniform(0.5, 3.0))

    def _consumption(self, over: frozenset[str], later: frozenset[str]) -> Consumption:
        door = Door(self.world, self.process)
        leases, workers = Leases(door), Workers(door)
        settings = self.deployment.settings
        claims = Claims(
            me=self.worker,
            claim=self.process.claim,
            leases=leases,
            workers=workers,
            runs=Runs(door, self.instance),
            clock=self.host,
            times=settings.times,
            over=over,
        )
        return Consumption(
            run_id=self.run_id,
            settings=settings,
            claims=claims,
            leases=leases,
            workers=workers,
            source=Source(door),
            table=Table(door),
            stage=Stage(door),
            clock=self.host,
            on_arrow=self._on_arrow,
            later=later,
        )

    @property
    def is_alive_for_dagster(self) -> bool:
        run = self.instance.runs.get(self.run_id) if self.instance is not None else None
        return run is not None and run.state is not RunState.OVER

    def _work(self) -> None:
        failed: tuple[str, ...] = ()
        passing = False
        run = Run(
            consumption=self.consumption,
            settings=self.deployment.settings,
            clock=self.host,
            pause=self.world.sim.pause,
            on_wave=self._on_wave,
            is_stopping=self._is_stopping,
        )
        beating = Beating(self.world, self.process, self.consumption.beat, every=5.0)
        try:
            if self.keys is None:
                run.all_that_is_due()
            else:
                run.catch_up(self.keys)
            beating.stop()
        except HeadraceError as error:
            self.world.note(self.process.name, f"failed: {error}")
            failed, passing = self.last_claimed, isinstance(error, Transient)
        finally:
            beating.stop()
        self._over((*failed, *self.consumption.failed), passing=passing)

    def _over(self, failed: tuple[str, ...], *, passing: bool = False) -> None:
        self.process.on_death = None
        self.world.note(self.process.name, f"is over{', failed: ' + ','.join(failed) if failed else ''}")
        if self.instance is not None:
            self.instance.end(self.run_id, tuple(dict.fromkeys(failed)), passing=passing)
        self.host.processes.pop(self.process, None)

    def _is_stopping(self) -> bool:
        row = self.consumption.workers.get(self.worker)
        return row is not None and row.stopping

    def _on_arrow(self, arrow: Arrow, keys: tuple[str, ...]) -> None:
        world = self.world
        if arrow is Arrow.CLAIMED:
            self.last_claimed = keys
        if world.script is not None:
            world.script(self.process, arrow.value, (keys,))
        if self.process.alive and world.weather.strikes("cut"):
            world.weather.told(self.process, arrow.value, "killed here")
            world.sim.die()

    def _on_wave(self, report: WaveReport) -> None:
        self.last_claimed = ()
        for problem in report.problems:
            self.world.note(self.process.name, f"{problem.lease_key}: {problem.why}")

    def _on_death(self) -> None:
        """Dagster may find out after a while, or never."""
        world, instance = self.world, self.instance
        world.note(self.process.name, "died")
        self.host.processes.pop(self.process, None)
        if instance is not None and world.rng.random() < 0.5:
            world.sim.after(world.rng.uniform(1.0, 60.0), lambda: instance.end(self.run_id))
