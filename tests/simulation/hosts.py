"""Machines, and what Dagster does on them: sensors that tick, runs that are launched, and processes that die."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pipeline.core.lease import Lease
from pipeline.core.stream import StreamId
from pipeline.duties.leader_tick import LeaderDuty, LeaderMemory
from pipeline.duties.streams import asked_by
from pipeline.duties.taking import Taking
from pipeline.duties.worker_tick import WorkerDuty, WorkerReport
from pipeline.errors import HeadraceError, TablesMissing, Terminal, Transient
from pipeline.ports import StreamFacts
from pipeline.settings import Settings
from pipeline.settings_choices import Mode
from sensors.cursor import read_leader, read_worker, write_leader, write_worker
from tests.simulation.cursors import Cursor, Remembered
from tests.simulation.instance import Instance, Runs
from tests.simulation.machine import Host
from tests.simulation.ports import Door, Leases, Lock, Source, Table, Tables, Workers
from tests.simulation.runs import Beating, RunAtWork
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

TICK = 5.0
_FACTS_LIVE = 60.0
_FAILURES = 3
_GIVES_UP = 60.0
"""Seconds that Dagster's daemon waits for a sensor's answer."""


class Deployment:
    """One Dagster instance with its sensors, on one host; its runs go to that host or to others too."""

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
        """The daemon and its code server come up."""
        if not self.host.alive or self.is_up or not self.world.is_open:
            return
        self._serve()
        self._round += 1
        self._loop(self._round)
        queue, self.queue = self.queue, []
        for launch in queue:
            self.world.sim.after(self.world.rng.uniform(1.0, 5.0), launch)

    def reload(self) -> None:
        """New code: what modules remember is gone; ticks of the old process go on to their end."""
        if self.is_up:
            self._serve()

    def learn(self) -> None:
        """New settings: what is at work goes on with the old ones."""
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
        weather, rng = world.weather, world.rng
        world.sim.after(TICK + 0.2 * rng.random(), lambda: self._loop(number))
        if self.server is None or self.server.frozen_until > world.sim.now:
            return
        self._fire("leader", self._leader_tick)
        for worker in self.workers:
            self._fire(worker, self._worker_tick)
        if weather.strikes("doubled"):
            weather.last_trouble = world.sim.now
            world.sim.after(rng.random(), lambda: self._fire_all_again(number))

    def _fire_all_again(self, number: int) -> None:
        """A second daemon looks after the same instance."""
        if number == self._round and self.is_up:
            self._waiting.clear()
            self._fire("leader", self._leader_tick)
            for worker in self.workers:
                self._fire(worker, self._worker_tick)

    def _fire(self, name: str, tick: Callable[[Process, str], None]) -> None:
        world, server = self.world, self.server
        if server is None or self._waiting.get(name, -_GIVES_UP) > world.sim.now - _GIVES_UP:
            return
        if world.weather.strikes("missed"):
            return
        if world.weather.strikes("forgotten"):
            self.instance.cursors.pop(name, None)
            world.note(self.host.name, f"the cursor of {name} is lost")
        self._waiting[name] = world.sim.now

        def work() -> None:
            if name in server.busy:
                return  # `sensors.once`: the tick before is still at work
            server.busy.add(name)
            try:
                tick(server, name)
            finally:
                server.busy.discard(name)
                self._waiting.pop(name, None)

        world.sim.spawn(server, work, 0.05 * world.rng.random())

    def _save(self, process: Process, name: str, cursor: Cursor[Any]) -> None:
        """A tick of a process that was replaced meanwhile may or may not be heard."""
        if process is self.server or self.world.rng.random() < 0.5:
            self.instance.cursors[name] = cursor

    # -- what sensors/leader.py does ---------------------------------------------------------------------------

    def _leader_tick(self, process: Process, name: str) -> None:
        remembered = process.known.setdefault(f"kept by {name}", Remembered(read_leader))
        memory, failures = remembered.of(self.instance.cursors.get(name))
        duty: LeaderDuty = process.known.get(name) or process.known.setdefault(name, self._leader(process))
        beating = Beating(self.world, process, duty.beat_lock, every=5.0, at_most=40.0)
        try:
            report = duty.tick(memory)
            self.world.require_told(report, by=process)
            memory, trouble = report.memory, report.trouble
        except Transient as error:
            trouble = error
        except HeadraceError as error:
            self.world.note(process.name, f"leader tick of {duty.leader_id} failed: {error}")
            self._give_up(duty)
            return
        finally:
            beating.stop()
        failures = 0 if trouble is None else failures + 1
        if trouble is not None:
            self.world.note(process.name, f"leader tick of {duty.leader_id}: {trouble}")
            if failures >= _FAILURES:
                self._give_up(duty)
                failures = 0
        self._save(process, name, remembered.keep((memory, failures), _leader_text))

    @staticmethod
    def _give_up(duty: LeaderDuty) -> None:
        with suppress(HeadraceError):
            duty.release()

    def _leader(self, process: Process) -> LeaderDuty:
        door = Door(self.world, process)
        return LeaderDuty(
            leader_id=self.workers[0],
            settings=self.settings,
            tables=Tables(door),
            leases=Leases(door),
            workers=Workers(door),
            lock=Lock(door),
            source=Source(door),
            table=Table(door),
            clock=self.host,
            ids=self.world.ids,
        )

    # -- what sensors/worker.py does ---------------------------------------------------------------------------

    def _worker_tick(self, process: Process, name: str) -> None:
        remembered = process.known.setdefault(f"kept by {name}", Remembered(read_worker))
        duty: WorkerDuty = process.known.get(name) or process.known.setdefault(
            name, self._worker(process, name)
        )
        try:
            report = duty.tick(remembered.of(self.instance.cursors.get(name)))
        except (Transient, TablesMissing) as error:
            self.world.note(process.name, f"worker tick of {name}: {error}")
            return
        except Terminal as error:
            self.world.note(process.name, f"worker tick of {name} failed: {error}")
            return
        for run_id in report.dead_runs:
            self.world.note(name, f"{run_id} is reported failed: it stopped beating")
            self.instance.end(run_id)
        self._save(process, name, remembered.keep(report.memory, write_worker))
        if report.due:
            self._request(name, report)

    def _worker(self, process: Process, name: str) -> WorkerDuty:
        door, settings = Door(self.world, process), self.settings
        source = Source(door)
        facts: dict[str, tuple[StreamFacts, float]] = {}

        def stream(row: Lease) -> tuple[StreamId, timedelta]:
            asked = asked_by(settings, row)
            found, until = facts.get(asked, (None, 0.0))
            if found is None or self.world.sim.now > until:
                found = source.describe(asked)
                facts[asked] = (found, self.world.sim.now + _FACTS_LIVE)
            return found.stream, found.retention

        return WorkerDuty(
            worker_id=name,
            instance=self.instance.name,
            leases=Leases(door),
            workers=Workers(door),
            source=source,
            runs=Runs(door, self.instance),
            clock=self.host,
            times=self.settings.times,
            lock=Lock(door),
            heartbeat=self.settings.coordination.heartbeat,
            taking=self._taking(door, name),
            stream=stream,
        )

    def _taking(self, door: Door, name: str) -> Taking | None:
        if self.settings.coordination.mode is Mode.OWN:
            return None
        return Taking(
            me=name,
            leases=Leases(door),
            clock=self.host,
            ids=self.world.ids,
            settings=self.settings,
            tables=Tables(door),
            workers=Workers(door),
        )

    def _request(self, worker: str, report: WorkerReport) -> None:
        key = f"{worker}/after/{report.latest_run or 'nothing'}"
        if key in self.instance.run_keys:
            return
        self.instance.run_keys.add(key)
        self.world.note(worker, f"asks for a run: {report.due[0].lease_key} {report.due[0].why}")
        self.launch(worker, over=report.over, later=report.later)

    # -- runs --------------------------------------------------------------------------------------------------

    def launch(
        self,
        worker: str,
        *,
        over: tuple[str, ...] = (),
        later: tuple[str, ...] = (),
        keys: tuple[str, ...] | None = None,
    ) -> None:
        """Queued; started a little later by the daemon, if it lives."""
        world, instance = self.world, self.instance
        run_id = world.a_run_id()
        instance.launch(run_id, worker, later)

        def go() -> None:
            hosts = [host for host in self.run_hosts if host.alive]
            if not self.is_up or not hosts:
                self.queue.append(go)
            elif instance is self.instance and instance.start(run_id, self.host.now()):
                host = world.rng.choice(hosts)
                RunAtWork(self, run_id, worker, host, over=over, later=later, keys=keys, instance=instance)

        world.sim.after(world.rng.uniform(1.0, 5.0), go)

    def consume(self, worker: str, keys: tuple[str, ...]) -> None:
        """`headrace consume`: a run that no Dagster knows."""
        run_id = self.world.a_run_id()
        RunAtWork(self, run_id, worker, self.host, over=(), later=(), keys=keys, instance=None)


def _leader_text(said: tuple[LeaderMemory, int]) -> str:
    return write_leader(*said)
