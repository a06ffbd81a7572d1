"""A run: the product's own loop in a simulated process, which may die at any time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.app.wiring import Hints, Wiring
from headrace.pipeline.core.leases.due import RunState
from headrace.pipeline.duties.fleet.sensor_turn import RunAsk
from headrace.pipeline.duties.waves.report import WaveReport, WaveStep
from headrace.pipeline.duties.waves.run import Reading, RunEnding
from headrace.pipeline.settings.model import Settings
from tests.simulation.instance import Instance, Runs
from tests.simulation.machine import Host
from tests.simulation.ports import ServiceCalls
from tests.simulation.process_ports import ProcessPorts
from tests.simulation.watch.left_watch import judge_left
from tests.simulation.watch.memory_watch import judge_memory
from tests.simulation.watch.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.hosts import Deployment

_WITHIN = 2.0
"""Seconds: Kinesis tells its time in whole seconds, and a call takes a while."""


class RunAtWork:
    """A run with what assets/records.py does around it: at its end Dagster is told how it ended."""

    def __init__(
        self,
        deployment: Deployment,
        run_id: str,
        worker: str,
        host: Host,
        *,
        ask: RunAsk | None,
        keys: tuple[str, ...] | None,
        instance: Instance | None,
    ) -> None:
        self.world = deployment.world
        self.instance = instance
        self.run_id = run_id
        self.host = host
        self.keys = keys
        self._since = host.now()
        """When the run began under its present claim, by its host's clock."""
        self._named = self._asked_for(keys or ())
        self._asked_at = self.world.sim.now
        self._claims: list[str] = []
        self._reading: Reading | None = None
        self.process = self.world.a_process(f"{run_id}@{host.name}", host, worker)
        self.process.on_death = self._on_death
        self.world.tally.runs += 1
        reading = self._reading = self._a_reading(deployment.settings, ask)
        work = (lambda: reading.everything_due(worker)) if keys is None else (lambda: reading.shards(keys))
        self.world.sim.spawn(self.process, lambda: self._work(work), self.world.rng.uniform(0.5, 3.0))

    def _a_reading(self, settings: Settings, ask: RunAsk | None) -> Reading:
        hints = Hints()
        if ask is not None:
            hints = Hints(
                dead_claims=frozenset(ask.dead_claims),
                left_alone=frozenset(ask.left_alone),
                due=frozenset(ask.due),
                failing=frozenset((*ask.recovering, *ask.left_alone)),
                retry_after=ask.retry_after,
            )
        ports = ProcessPorts(self.world, self.process, self._on_run)
        ports.consumer = settings.consumer_of(settings.streams[0])
        wiring = Wiring(settings, ports)
        return wiring.reading(
            self.run_id,
            Runs(ServiceCalls(self.world, self.process), self.instance),
            on_wave=self._on_wave,
            on_waiting=lambda _: None,
            on_step=self._on_step,
            hints=hints,
        )

    def _on_run(self, fresh: str, worker: str) -> None:
        """A run may read for several workers, one after the other, each time under a new claim."""
        self.process.claim, self.process.worker = f"{self.run_id}/{fresh}", worker
        self._claims.append(self.process.claim)
        self.world.runs[self.process.claim] = self
        self._since = self.host.now()

    @property
    def is_at_work(self) -> bool:
        return self.process in self.host.processes

    @property
    def is_alive_for_dagster(self) -> bool:
        run = self.instance.runs.get(self.run_id) if self.instance is not None else None
        return run is not None and run.state is not RunState.OVER

    def _work(self, work: Callable[[], RunEnding]) -> None:
        ending = work()
        self.world.kept.judge_end(self.process)
        judge_left(self.world, self.process, self._claims)
        self.world.releases.judge_end(self.process, self._claims)
        self.world.waiting.note_failed(ending.failed)
        if self.keys is not None:
            self._require_read(frozenset(ending.failed))
        failed = f", failed: {','.join(sorted(ending.failed))}" if ending.failed else ""
        self.world.note(self.process.name, f"is over{failed}{f' ({ending.error})' if ending.error else ''}")
        self.process.on_death = None
        if self.instance is not None:
            self.instance.end(self.run_id, tuple(sorted(ending.failed)), passing=ending.is_passing)
        self.host.processes.pop(self.process, None)

    def _asked_for(self, keys: tuple[str, ...]) -> dict[str, tuple[ShardTruth, int]]:
        """By lease key: the shard, and how many of its records had arrived when the run began, by the slowest clock that it may go by."""
        began = self.world.clock.now() + timedelta(seconds=min(0.0, self.host.offset) - _WITHIN)
        shards = ((key, self.world.leases.shard(self.world.leases.rows.get(key))) for key in keys)
        return {key: (its, bisect_left(its.arrivals, began)) for key, its in shards if its is not None}

    def _require_read(self, failed: frozenset[str]) -> None:
        """I22: a run for named shards that ends well has read each of them to the tip that it had at the run's beginning, or to its end, or
        names it among those that it couldn't read."""
        world = self.world
        for key, (shard, arrived) in self._named.items():
            stream = shard.key.stream
            is_known = world.truth.lives(stream) and stream in world.table.origins
            if key in failed or shard.ended or not is_known:
                continue
            if world.truth.is_passed(shard, world.truth.placed()):
                continue
            if world.table.undone_ends.get(shard.key, -1.0) >= self._asked_at:
                continue  # the run saw that the shard had ended, and left it alone, before a person undid the end
            reads = [
                read for claim in self._claims for read, _ in world.losses.newest_reads(claim, shard.key)
            ]
            if all(read.error is not None for read in reads):
                raise Violation("I22", f"{self.process} ends well, and has never read {key}", key)
            if left := self._left_of(shard, arrived):
                raise Violation(
                    "I22",
                    f"{self.process} ends well, and {left} records of {key} from before it began haven't landed",
                    key,
                )

    def _left_of(self, shard: ShardTruth, arrived: int) -> int:
        """How many of the first `arrived` records of the shard haven't landed; 0 where clocks or people make that unsure."""
        world = self.world
        jumped = any(host is self.host for _, host in world.jumps)
        if jumped or not world.losses.sure or world.call_faults.happened["rolled_back"]:
            return 0
        first = world.truth.first(shard, world.table.origins[shard.key.stream])
        rest, now = shard.arrivals[max(first, shard.read) : arrived], world.clock.now()
        return sum(not world.losses.is_reported(shard, at, now) for at in rest)

    def _on_step(self, step: WaveStep, keys: tuple[str, ...]) -> None:
        world = self.world
        world.kept.note_step(self.process, step)
        if step is WaveStep.COMMITTED and self._reading is not None and self._reading._run is not None:
            judge_memory(world, self.process, self._reading._run.attempt.kept)
        if step is WaveStep.CLAIMED and self.keys is not None:
            self._require_not_read_past_beginning(keys)
        if world.script is not None:
            world.script(self.process, step.value, (keys,))
        if self.process.alive and world.call_faults.occurs("cut"):
            world.call_faults.note_fault(self.process, step.value, "the process is killed")
            world.sim.die()

    def _require_not_read_past_beginning(self, keys: tuple[str, ...]) -> None:
        """I22: a run for named shards reads records up to its beginning. Once it has landed a later record of a
        shard, it doesn't claim that shard again."""
        for key in keys:
            shard = self.world.leases.shard(self.world.leases.rows.get(key))
            read = None if shard is None else self.world.losses.landed_by.get((self.process.claim, shard.key))
            if read is not None and read >= self._since:
                raise Violation(
                    "I22",
                    f"{self.process} began at {self._since}, has read {key} to {read}, and goes on reading it",
                    key,
                )

    def _on_wave(self, report: WaveReport) -> None:
        for problem in report.problems:
            self.world.note(self.process.name, f"{problem.lease_key}: {problem.why}")

    def _on_death(self) -> None:
        """Dagster notices the death after a while, or never."""
        world, instance = self.world, self.instance
        world.note(self.process.name, "died")
        world.waiting.note_death(self.process.worker)
        self.host.processes.pop(self.process, None)
        if instance is not None and world.rng.random() < 0.5:
            world.sim.after(world.rng.uniform(1.0, 60.0), lambda: instance.end(self.run_id))
