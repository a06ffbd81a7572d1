"""The ports of one process. Each call takes time, lets other tasks run, and may meet a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import TablesMissing, Unreachable
from headrace.pipeline.ports.leases import NO_ROWS
from tests.memory.leases import one_by_one
from tests.simulation.scheduler import Killed, Process
from tests.simulation.troubles.call_faults import ASK_KINESIS, READ, READS, WRITE, CallKind
from tests.simulation.watch.lock_watch import JudgedLock

if TYPE_CHECKING:
    from tests.simulation.world import World

Script = Callable[[Process, str, tuple[Any, ...]], None]
"""Called at each port call, with the process, the call's name and its arguments. Scenarios stop tasks by it."""

_WRITES = {
    "apply",
    "ask",
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


def _kind_of(service: str, method: str) -> CallKind:
    return WRITE if method in _WRITES else READS[service]


class ServiceCalls:
    """All port calls of one process go through this object, which adds the time they take and the faults they meet."""

    __slots__ = ("_pause", "call_faults", "process", "random", "world")

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process
        self.call_faults = world.call_faults
        self.random: Callable[[], float] = world.rng.random
        self._pause = world.sim.pause

    def call(self, kind: CallKind, what: str, do: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if not self.process.alive:
            raise Killed
        self._pause(kind.least + kind.more * self.random())
        if self.world.script is not None:
            self.world.script(self.process, what, args)
        if self.call_faults.are_on and (trouble := self.call_faults.at(kind)) is not None:
            return trouble(self.process, what, partial(do, *args, **named))
        return do(*args, **named)


class Port:
    """A port with the methods of `server`, each called through `ServiceCalls`."""

    service = ""
    name = ""

    def __init__(self, calls: ServiceCalls, server: Any) -> None:
        self._calls = calls
        self._server = server

    def __getattr__(self, method: str) -> Callable[..., Any]:
        do = getattr(self._server, method)
        kind, what, ask = _kind_of(self.service, method), f"{self.name}.{method}", self._calls.call

        def call(*args: Any, **named: Any) -> Any:
            return ask(kind, what, do, *args, **named)

        self.__dict__[method] = call
        return call


class Tables(Port):
    """Making the coordination tables."""

    service, name = "dynamo", "tables"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world)

    def ensure(self) -> bool:
        made: bool = self._calls.call(READ, "tables.ensure", self._calls.world.ensure_tables)
        return made


class Leases(Port):
    """The lease table as one process reaches it. A portion of writes may be applied in part."""

    service, name = "dynamo", "leases"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.leases)

    def scan(self) -> Any:
        self._calls.process.scans = found = self._calls.call(READ, "leases.scan", self._server.scan)
        self._calls.world.leases.note_scan(self._calls.process)
        self._note_read(found.leases)
        return found

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Any:
        """Rows that are known aren't read: the index of owners shows only that they are there."""
        found = self._calls.call(READ, "leases.held_by", self._server.held_by, worker_id, known)
        self._note_read(row for row in found.leases if row.key not in known)
        return found

    def _note_read(self, rows: Iterable[Lease]) -> None:
        process, now = self._calls.process, self._calls.world.sim.now
        process.read_of_row.update((row.key, now) for row in rows)

    def get(self, key: str) -> Any:
        found = self._calls.call(READ, "leases.get", self._server.get, key)
        self._calls.world.kept.note_read(self._calls.process, () if found is None else (found,))
        self._note_read(() if found is None else (found,))
        return found

    def get_many(self, keys: Sequence[str]) -> Any:
        found = self._calls.call(READ, "leases.get_many", self._server.get_many, keys)
        self._calls.world.kept.note_read(self._calls.process, found.leases)
        self._note_read(found.leases)
        return found

    def apply(self, change: Change) -> Applied | Refused:
        process = self._calls.process
        self._calls.world.releases.note_sent(process, (change,))
        done: Applied | Refused = self._calls.call(
            WRITE,
            "leases.apply",
            self._arrive,
            change,
            process,
            looked=process.looked_at_workers,
            sent=self._calls.world.sim.now,
        )
        return done

    def _arrive(self, change: Change, process: Process, **sending: Any) -> Applied | Refused:
        world = self._calls.world
        if world.sim.current is None and (claim := change.put.get("run_claim")):
            # Its sender has given the request up, and doesn't know of the claim.
            world.late_claims.add((str(claim), change.key))
        done: Applied | Refused = self._server.apply(change, process, **sending)
        return done

    @property
    def at_once(self) -> int:
        """The size of a portion, as in the DynamoDB adapter, so that a tick decides between two portions here too."""
        return 16

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        if len(changes) > 1 and self._calls.call_faults.occurs("half_done"):
            # A portion is one request: what isn't written of it was asked for, too.
            self._calls.world.releases.note_sent(self._calls.process, changes)
            return self._some_of(changes)
        return one_by_one(self.apply, changes)

    def _some_of(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        """Write a part of the portion, in any order. Then the process dies, or the other writes fail."""
        world, process = self._calls.world, self._calls.process
        order = world.rng.sample(range(len(changes)), len(changes))
        dies, written = world.rng.random() < 0.4, order[: world.rng.randrange(len(changes))]
        how = "the process dies" if dies else "the other writes fail"
        world.call_faults.note_fault(
            process, "leases.apply_all", f"{len(written)} of {len(changes)} written, then {how}"
        )
        outcomes = {at: one_by_one(self.apply, [changes[at]])[0] for at in written}
        if dies:
            world.sim.die()
        untried = Unreachable("leases.apply_all didn't answer")
        return tuple(outcomes.get(at, untried) for at in range(len(changes)))


class Workers(Port):
    """The worker table as one process reaches it."""

    service, name = "dynamo", "workers"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.workers)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        do = getattr(self._server, method)
        kind, ask = _kind_of(self.service, method), self._calls.call
        world, process, what = self._calls.world, self._calls.process, f"workers.{method}"

        def with_table(*args: Any, **named: Any) -> Any:
            if world.tables_missing:
                raise TablesMissing("the worker table doesn't exist")
            return do(*args, **named)

        looks = method in {"glance", "listing"}

        def call(*args: Any, **named: Any) -> Any:
            found = ask(kind, what, with_table, *args, **named)
            task = world.sim.current
            if looks:
                process.looked_at_workers = world.sim.now
                if task is not None:
                    task.looked_at_workers = world.sim.now
            elif method == "get_many":
                process.read_of_worker.update(dict.fromkeys(args[0], world.sim.now))
                if task is not None:
                    task.read_of_worker.update(dict.fromkeys(args[0], world.sim.now))
            return found

        self.__dict__[method] = call
        return call


class Lock(Port):
    """The leader's lock as one process reaches it."""

    service, name = "dynamo", "lock"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, JudgedLock(calls.world, calls.process))

    def take(self, mine: Any, *, seen: Any) -> bool:
        taken: bool = self._calls.call(WRITE, "lock.take", self._server.take, mine, seen=seen)
        if taken:
            self._calls.world.note(self._calls.process.name, f"leads now as {mine.owner}")
        return taken


class Consumers(Port):
    """The consumers of enhanced fan-out as one process reaches them."""

    service, name = "kinesis", "consumers"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.fan_out.consumers)


class Source(Port):
    """Kinesis as one process reaches it."""

    service, name = "kinesis", "source"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.source)

    def aws_now(self) -> Any:
        return self._server.aws_now()

    def list_shards(self, *args: Any) -> Any:
        found = self._calls.call(ASK_KINESIS, "source.list_shards", self._server.list_shards, *args)
        return self._calls.world.as_listed(args[0], found)

    def has_news(self, keys: Any) -> Any:
        for key in keys:
            self._calls.world.count_read(key)
        return self._calls.call(ASK_KINESIS, "source.has_news", self._server.has_news, keys)
