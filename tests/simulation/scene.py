"""A fleet without random faults, in which a test stops tasks at named port calls: for interleavings step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from tests.simulation.plan import Plan
from tests.simulation.run import lines
from tests.simulation.scheduler import Process, Task
from tests.simulation.settle import unsettled
from tests.simulation.world import World

Matches = Callable[[Process, tuple[Any, ...]], bool]
_FOREVER = 1e9


@dataclass(slots=True)
class Held:
    """Stops the first process that makes a named call, as SIGSTOP does, until `let_go`."""

    what: str
    matches: Matches
    scene: Scene
    freezes: bool = True
    """If False, only the task that makes the call stands still, and its process goes on beating."""
    task: Task | None = None
    args: tuple[Any, ...] = ()

    @property
    def process(self) -> Process:
        assert self.task is not None, f"no process has called {self.what}"
        return self.task.process

    def let_go(self) -> None:
        self.process.frozen_until = 0.0
        assert self.task is not None
        self.scene.world.sim.wake(self.task)


@dataclass(slots=True)
class Scene:
    """One fleet, its world, and the ways in which a test stops and watches it."""

    plan: Plan
    world: World = field(init=False)
    _held: list[Held] = field(default_factory=list)
    _scripts: list[Callable[[Process, str, tuple[Any, ...]], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.plan)
        self.world.script = self._script
        if not self.plan.opens:
            for deployment in self.world.deployments:
                deployment.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()

    # -- what happens ------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.sim.run(self.world.sim.now + seconds)

    def run_until(self, done: Callable[[], Any], *, within: float) -> float:
        """Run until `done()` is true, and return how many seconds that took."""
        began = self.world.sim.now
        while not done():
            assert self.world.sim.now - began <= within, "\n".join(
                [f"not done within {within:.0f} s:", *lines(self.world.history)[-60:]]
            )
            self.run(1.0)
        return self.world.sim.now - began

    def settled(self, *, within: float = 300.0) -> None:
        """Run until every record has landed, and every open shard has a living worker that reads it."""
        self.run_until(lambda: next(unsettled(self.world), None) is None, within=within)

    def hold(self, what: str, matches: Matches = lambda _p, _a: True, *, freezes: bool = True) -> Held:
        held = Held(what, matches, self, freezes)
        self._held.append(held)
        return held

    def held(
        self, what: str, matches: Matches = lambda _p, _a: True, *, within: float = 60.0, freezes: bool = True
    ) -> Held:
        """Run until a process has been stopped at the call `what`."""
        held = self.hold(what, matches, freezes=freezes)
        self.run_until(lambda: held.task is not None, within=within)
        return held

    def on_call(self, script: Callable[[Process, str, tuple[Any, ...]], None]) -> None:
        self._scripts.append(script)

    def _script(self, process: Process, what: str, args: tuple[Any, ...]) -> None:
        for held in self._held:
            if held.task is None and held.what == what and held.matches(process, args):
                held.task, held.args = self.world.sim.current, args
                self.world.note(process.name, f"is held at {what}")
                if held.freezes:
                    process.frozen_until = self.world.sim.now + _FOREVER
                self.world.sim.park()
        for script in self._scripts:
            script(process, what, args)

    def put(self, shard: int, count: int = 5) -> None:
        self.world.put(self.world.truth.of(name(shard)), count)

    def declare_failed(self, process: Process) -> None:
        """Let Dagster call the run failed, whether it is dead or not."""
        run_id = process.claim.partition("/")[0]
        for deployment in self.world.deployments:
            deployment.instance.end(run_id)

    # -- what the tables hold -----------------------------------------------------------------------------------------

    def row(self, shard: int) -> Lease:
        return self.world.leases.rows[name(shard)]

    def is_read_up(self, shard: int) -> bool:
        its = self.world.truth.of(name(shard))
        return its.read == len(its.sequences) and its.token is not None

    def has_ended(self, shard: int) -> bool:
        return self.world.truth.of(name(shard)).ended

    def key(self, shard: int) -> ShardKey:
        return ShardKey(self.world.truth.stream, name(shard))

    def said(self, text: str) -> list[str]:
        """The lines of the history that contain this text."""
        return [line for line in lines(self.world.history) if text in line]


def name(shard: int) -> str:
    return f"shardId-{shard:012d}"


def is_run(process: Process, _args: tuple[Any, ...]) -> bool:
    return bool(process.claim)


def a_scene(**changed: Any) -> Scene:
    """By default two hosts with a worker each, two shards, exact clocks, and no random faults."""
    return Scene(Plan(**{"seed": 1, "shards": 2, "skewed": False, "fault_seconds": 1e6} | changed))
