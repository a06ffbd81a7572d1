"""The ports of one process: each call takes time, gives others a turn, and meets the weather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.core.batch import Batch, BatchLimits, Manifest
from pipeline.core.change import Applied, Change, Outcome, Refused
from pipeline.core.landing import Proposal
from pipeline.errors import TablesMissing, Unreachable
from pipeline.memory.leases import one_by_one
from pipeline.ports import Committed, StagingSpec, TableState
from tests.simulation.scheduler import Killed, Process
from tests.simulation.weather import ASK_KINESIS, LOAD, READ, WAYS, WRITE, Way

if TYPE_CHECKING:
    from tests.simulation.world import World

Script = Callable[[Process, str, tuple[Any, ...]], None]
"""Called at each port call, with the process, the call's name and its arguments: scenarios hold tasks there."""

_WRITES = {
    "apply",
    "beat",
    "beat_run",
    "count_assign_pass",
    "delete_stale",
    "forget_runs",
    "release",
    "report",
    "set_stopping",
    "take",
}


def _way(service: str, method: str) -> Way:
    return WRITE if method in _WRITES else WAYS[service]


class Door:
    """The way out of a process."""

    __slots__ = ("_pause", "process", "random", "weather", "world")

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process
        self.weather = world.weather
        self.random: Callable[[], float] = world.rng.random
        self._pause = world.sim.pause

    def go(self, way: Way, what: str, do: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if not self.process.alive:
            raise Killed
        self._pause(way.least + way.more * self.random())
        if self.world.script is not None:
            self.world.script(self.process, what, args)
        if self.weather.storm and (trouble := self.weather.at(way)) is not None:
            return trouble(self.process, what, partial(do, *args, **named))
        return do(*args, **named)


class Port:
    """Whatever the server can do, through the door."""

    service = ""
    name = ""

    def __init__(self, door: Door, server: Any) -> None:
        self._door = door
        self._server = server

    def __getattr__(self, method: str) -> Callable[..., Any]:
        do = getattr(self._server, method)
        way, what, go = _way(self.service, method), f"{self.name}.{method}", self._door.go

        def call(*args: Any, **named: Any) -> Any:
            return go(way, what, do, *args, **named)

        self.__dict__[method] = call
        return call


class Tables(Port):
    service, name = "dynamo", "tables"

    def __init__(self, door: Door) -> None:
        super().__init__(door, door.world)

    def ensure(self) -> bool:
        made: bool = self._door.go(READ, "tables.ensure", self._door.world.ensure_tables)
        return made


class Leases(Port):
    service, name = "dynamo", "leases"

    def __init__(self, door: Door) -> None:
        super().__init__(door, door.world.leases)

    def scan(self) -> Any:
        self._door.process.scans = found = self._door.go(READ, "leases.scan", self._server.scan)
        return found

    def apply(self, change: Change) -> Applied | Refused:
        process = self._door.process
        done: Applied | Refused = self._door.go(
            WRITE, "leases.apply", self._server.apply, change, process, looked=process.looked_at_workers
        )
        return done

    @property
    def at_once(self) -> int:
        """As many as DynamoDB is asked for at a time: what a tick decides between two portions is seen here too."""
        return 16

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        if len(changes) > 1 and self._door.weather.strikes("halved"):
            return self._some_of(changes)
        return one_by_one(self.apply, changes)

    def _some_of(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        """A part of the portion is written, in any order. Then the process dies, or the rest isn't tried any more."""
        world, process = self._door.world, self._door.process
        order = world.rng.sample(range(len(changes)), len(changes))
        dies, written = world.rng.random() < 0.4, order[: world.rng.randrange(len(changes))]
        how = "the process dies" if dies else "the rest fails"
        world.weather.told(
            process, "leases.apply_all", f"{len(written)} of {len(changes)} written, then {how}"
        )
        outcomes = {at: one_by_one(self.apply, [changes[at]])[0] for at in written}
        if dies:
            world.sim.die()
        untried = Unreachable("leases.apply_all didn't answer")
        return tuple(outcomes.get(at, untried) for at in range(len(changes)))


class Workers(Port):
    service, name = "dynamo", "workers"

    def __init__(self, door: Door) -> None:
        super().__init__(door, door.world.workers)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        do = getattr(self._server, method)
        way, go = _way(self.service, method), self._door.go
        world, process, what = self._door.world, self._door.process, f"workers.{method}"

        def there(*args: Any, **named: Any) -> Any:
            if world.tables_missing:
                raise TablesMissing("the worker table isn't there")
            return do(*args, **named)

        looks = method in {"glance", "listing"}

        def call(*args: Any, **named: Any) -> Any:
            found = go(way, what, there, *args, **named)
            if looks:
                process.looked_at_workers = world.sim.now
            return found

        self.__dict__[method] = call
        return call


class Lock(Port):
    service, name = "dynamo", "lock"

    def __init__(self, door: Door) -> None:
        super().__init__(door, door.world.lock)

    def take(self, mine: Any, *, seen: Any) -> bool:
        taken: bool = self._door.go(WRITE, "lock.take", self._server.take, mine, seen=seen)
        if taken:
            self._door.world.note(self._door.process.name, f"leads now as {mine.owner}")
        return taken


class Source(Port):
    service, name = "kinesis", "source"

    def __init__(self, door: Door) -> None:
        super().__init__(door, door.world.source)

    def aws_now(self) -> Any:
        return self._server.aws_now()

    def list_shards(self, *args: Any) -> Any:
        found = self._door.go(ASK_KINESIS, "source.list_shards", self._server.list_shards, *args)
        return self._door.world.as_listed(args[0], found)

    def has_news(self, keys: Any) -> Any:
        for key in keys:
            self._door.world.count_read(key)
        return self._door.go(ASK_KINESIS, "source.has_news", self._server.has_news, keys)


class Table(Port):
    service, name = "lake", "table"

    def __init__(self, door: Door) -> None:
        super().__init__(door, door.world.table)

    def ensure(self) -> None:
        """It always is there."""

    def load(self) -> TableState:
        state: TableState = self._door.go(LOAD, "table.load", self._server.load)
        self._door.process.loaded = self._door.world.sim.now
        return state

    def staging_spec(self) -> StagingSpec:
        spec: StagingSpec = self._server.staging_spec()
        return spec

    def commit(self, proposal: Proposal) -> Committed:
        world, process = self._door.world, self._door.process
        if not process.alive:
            raise Killed
        world.sim.pause(0.005 + 0.05 * world.rng.random())
        if world.script is not None:
            world.script(process, "table.commit", (proposal,))
        if world.weather.strikes("napped"):
            world.weather.freeze(process, "table.commit", lambda: None)
        done: Committed = self._server.commit(proposal)
        world.sim.pause(0.005)
        world.tally.add_commit(process.claim, done)
        return done


class Stage:
    """Reading takes its time, now and then far too much of it; the stream may be made anew meanwhile."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        door, world = self._door, self._door.world
        if not door.process.alive:
            raise Killed
        world.sim.pause(0.1 + world.rng.random() * (1.0 + 2.0 * world.plan.wave_takes))
        if world.script is not None:
            world.script(door.process, "stage.read", (batches,))
        if world.weather.strikes("hung"):
            seconds = world.rng.choice((30.0, 130.0, 400.0, 1e6))
            world.weather.told(door.process, "stage", f"hangs for {seconds:.0f} s")
            world.sim.pause(seconds)
        for batch in batches:
            world.count_read(batch.key)
        made = world.stage.stage(batches, spec, limits)
        world.losses.note_read(door.process, made)
        world.tally.staged_rows += sum(each.rows for each in made.staged)
        world.sim.pause(0.05 + 0.3 * world.rng.random())
        if world.script is not None:
            world.script(door.process, "stage.staged", (made,))
        return made
