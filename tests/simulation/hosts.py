"""Deployments on simulated hosts: Dagster's sensors tick, its runs are launched, and its processes die."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.duties.fleet.sensor_turn import RunAsk
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.model import Settings
from tests.simulation.instance import Instance, Runs
from tests.simulation.machine import Host
from tests.simulation.ports import ServiceCalls
from tests.simulation.process_ports import ProcessPorts
from tests.simulation.runs import RunAtWork
from tests.simulation.scheduler import Process
from tests.simulation.watch.rest_watch import judge_rest

if TYPE_CHECKING:
    from tests.simulation.world import World

_GIVES_UP = 60.0
"""Seconds that Dagster's daemon waits for a sensor's answer."""


class Deployment:
    """One Dagster instance with its sensors, on one host. Its runs start on the hosts of `run_hosts`."""

    def __init__(self, world: World, host: Host, settings: Settings, run_hosts: list[Host]) -> None:
        self.world = world
        self.host = host
        self.settings = settings
        self.run_hosts = run_hosts
        self.instance = Instance(f"dagster-{host.name}")
        self.server: Process | None = None
        self.queue: list[Callable[[], None]] = []
        self._waiting: dict[str, float] = {}
        self._round = 0

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(worker.id for worker in self.settings.workers)

    @property
    def is_up(self) -> bool:
        return self.server is not None and self.server.alive and self.host.alive

    def start(self) -> None:
        """Start the daemon and its code server."""
        if not self.host.alive or self.is_up or not self.world.is_open:
            return
        self._serve()
        self._round += 1
        self._loop(self._round)
        queue, self.queue = self.queue, []
        for launch in queue:
            self.world.sim.after(self.world.rng.uniform(1.0, 5.0), launch)

    def reload(self) -> None:
        """Replace the code server, as Dagster does for new code: what modules remember is lost, and ticks of the
        old process finish."""
        if self.is_up:
            self._serve()

    def forget(self) -> None:
        """Lose the Dagster storage: runs, cursors, run keys and the queue."""
        self.instance = Instance(f"{self.instance.name}+")
        self.queue.clear()

    def learn(self) -> None:
        """Take over new settings. Ticks and runs that are at work finish with the old ones."""
        self.settings = self.world.settings(self.workers)
        self.reload()

    def _serve(self) -> None:
        world = self.world
        old, self.server = self.server, world.a_process(f"server@{self.host.name}", self.host)
        if old is not None:
            old.on_death = None
        self.server.on_death = self._on_death
        self._waiting.clear()

    def _on_death(self) -> None:
        self.world.note(self.host.name, "its code server died")
        self._round += 1
        if self.host.alive:
            self.world.sim.after(self.world.rng.uniform(2.0, 20.0), self.start)

    def _loop(self, number: int) -> None:
        if number != self._round or not self.is_up:
            return
        world = self.world
        faults, rng = world.call_faults, world.rng
        world.sim.after(world.pace + 0.2 * rng.random(), lambda: self._loop(number))
        if self.server is None or self.server.frozen_until > world.sim.now:
            return
        self._fire("leader", self._leader_tick)
        for worker in self.workers:
            self._fire(worker, self._worker_tick)
        if faults.occurs("doubled"):
            faults.last_fault = world.sim.now
            world.sim.after(rng.random(), lambda: self._fire_all_again(number))

    def _fire_all_again(self, number: int) -> None:
        """Let all sensors tick a second time, as a second daemon on the same instance would."""
        if number == self._round and self.is_up:
            self._waiting.clear()
            self._fire("leader", self._leader_tick)
            for worker in self.workers:
                self._fire(worker, self._worker_tick)

    def _fire(self, name: str, tick: Callable[[Process, str], None]) -> None:
        world, server = self.world, self.server
        if server is None or self._waiting.get(name, -_GIVES_UP) > world.sim.now - _GIVES_UP:
            return
        if world.call_faults.occurs("missed"):
            world.waiting.disturb(name)
            return
        if world.call_faults.occurs("forgotten"):
            world.waiting.disturb(name)
            self.instance.cursors.pop(name, None)
            world.note(self.host.name, f"the cursor of {name} is lost")
        self._waiting[name] = world.sim.now

        def work() -> None:
            try:
                tick(server, name)
            finally:
                self._waiting.pop(name, None)

        world.sim.spawn(server, work, 0.05 * world.rng.random())

    def _save(self, process: Process, name: str, cursor: str | None) -> None:
        """Save a tick's cursor. If the tick's process was replaced meanwhile, the cursor is saved or lost by chance."""
        if cursor is not None and (process is self.server or self.world.rng.random() < 0.5):
            self.instance.cursors[name] = cursor

    # -- what sensors/*.py do with a turn ------------------------------------------------------------------------

    def _wiring(self, process: Process) -> Wiring:
        wiring: Wiring | None = process.known.get("wiring")
        if wiring is None:
            wiring = Wiring(self.settings, ProcessPorts(self.world, process))
            process.known["wiring"] = wiring
        return wiring

    def _leader_tick(self, process: Process, name: str) -> None:
        try:
            turn = self._wiring(process).leader_turn(self.instance.cursors.get(name))
        except HeadraceError as error:
            self.world.note(process.name, f"leader tick failed: {error}")
            return
        self.world.require_reported(turn, by=process)
        if turn.alarm is not None:
            self.world.note(process.name, turn.alarm)
        self._save(process, name, turn.cursor)

    def _worker_tick(self, process: Process, name: str) -> None:
        began = self.world.sim.now
        instance = self.instance
        try:
            turn = self._wiring(process).worker_turn(
                name,
                instance.cursors.get(name),
                instance=instance.name,
                runs=Runs(ServiceCalls(self.world, process), instance),
            )
        except HeadraceError as error:
            self.world.note(process.name, f"worker tick of {name} failed: {error}")
            return
        tick = max(self.settings.times.worker_tick.total_seconds(), self.world.pace)
        judge_rest(self.world, process, name, saw=turn.partitions, began=began, tick=tick)
        for run_id in turn.dead_runs:
            self.world.note(name, f"{run_id} is reported failed: it stopped beating")
            self.instance.end(run_id)
        self._save(process, name, turn.cursor)
        if turn.ask is not None:
            for key in turn.ask.due:
                self.world.leases.require_turn(key, asked=began, by=name)
            self._request(turn.ask, turn.sentence)

    def _request(self, ask: RunAsk, why: str) -> None:
        if ask.key in self.instance.run_keys:
            return
        self.instance.run_keys.add(ask.key)
        self.world.note(ask.worker, f"asks for a run: {why}")
        self.launch(ask.worker, ask=ask)

    # -- runs --------------------------------------------------------------------------------------------------

    def launch(self, worker: str, *, ask: RunAsk | None = None, keys: tuple[str, ...] | None = None) -> None:
        """Queue a run. The daemon starts it a little later, if the daemon is alive."""
        world, instance = self.world, self.instance
        run_id = world.a_run_id()
        instance.launch(run_id, worker, () if ask is None else ask.left_alone)

        def go() -> None:
            hosts = [host for host in self.run_hosts if host.alive]
            if not self.is_up or not hosts:
                self.queue.append(go)
            elif instance is self.instance and instance.start(run_id, self.host.now()):
                self._start_run(run_id, worker, world.rng.choice(hosts), ask, keys, instance)

        world.sim.after(world.rng.uniform(1.0, 5.0), go)

    def _start_run(
        self,
        run_id: str,
        worker: str,
        host: Host,
        ask: RunAsk | None,
        keys: tuple[str, ...] | None,
        instance: Instance,
    ) -> None:
        RunAtWork(self, run_id, worker, host, ask=ask, keys=keys, instance=instance)

    def upkeep(self) -> None:
        """The upkeep job's compaction. Nobody notices its death: the next job goes on."""
        world, host = self.world, self.host
        process = world.a_process(f"upkeep@{host.name}", host)
        compacting = Wiring(self.settings, ProcessPorts(world, process)).upkeep.compacting()

        def work() -> None:
            try:
                world.note(process.name, "; ".join(compacting.run().sentences()) or "compacts nothing")
            except HeadraceError as error:
                world.note(process.name, f"compacts nothing: {error}")
            process.on_death = None
            host.processes.pop(process, None)

        process.on_death = lambda: host.processes.pop(process, None)
        world.sim.spawn(process, work, world.rng.uniform(0.5, 3.0))

    def consume(self, worker: str, keys: tuple[str, ...]) -> None:
        """`headrace consume`: a run that Dagster doesn't know."""
        run_id = self.world.a_run_id()
        RunAtWork(self, run_id, worker, self.host, ask=None, keys=keys, instance=None)
