"""The ports of one process in the form that `headrace.pipeline.app.wiring` asks for, so that the product's own wiring makes the
duties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.usage import ProcessUsage
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter, TableFiles
from headrace.pipeline.windows.ports import ReplayPorts, UnpackPorts, WindowStore
from tests.simulation.lake_ports import Lineage, Live, Rewriting, Stage, Table
from tests.simulation.ports import Consumers, Leases, Lock, ServiceCalls, Source, Tables, Workers
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class SimTimer:
    """A timer that beats in the same process while the process works."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    @contextmanager
    def __call__(
        self, beat: Callable[[], object], every: timedelta, at_most: timedelta | None
    ) -> Iterator[None]:
        at_work = _Beating(self._world, self._process, beat, every.total_seconds(), at_most)
        try:
            yield
        finally:
            at_work.is_on = False


class _Beating:
    """One timer: the events at which it beats, until its block ends."""

    def __init__(
        self,
        world: World,
        process: Process,
        beat: Callable[[], object],
        every: float,
        at_most: timedelta | None,
    ) -> None:
        self._sim = world.sim
        self._process = process
        self._beat = beat
        self._every = every
        self._until = 1e12 if at_most is None else world.sim.now + at_most.total_seconds()
        self.is_on = True
        self._sim.after(every, self._fire)

    def _fire(self) -> None:
        sim = self._sim
        if not self.is_on or not self._process.alive or sim.now >= self._until:
            return
        if self._process.frozen_until > sim.now:
            sim.at(min(self._process.frozen_until, sim.now + 5.0), self._fire)
            return
        sim.after(self._every, self._fire)
        sim.spawn(self._process, self._beat_in_a_task)

    def _beat_in_a_task(self) -> None:
        with suppress(HeadraceError):
            self._beat()


class RunClock:
    """The clock of a process's host. A run may hang while it waits for its next wave."""

    def __init__(self, world: World, process: Process) -> None:
        self._faults = world.call_faults
        self._random = world.rng
        self._process = process
        self.now = process.host.now
        self.monotonic = process.host.monotonic

    def pause(self, seconds: float) -> None:
        self._process.host.pause(seconds)
        if self._faults.occurs("hung_between"):
            self._faults.hang(self._process, "a pause", self._random.choice((30.0, 130.0, 400.0, 1e6)))


class ProcessPorts:
    """`on_run` is called with the claim and the worker of each run that is put together with these ports, before
    the run starts."""

    def __init__(
        self, world: World, process: Process, on_run: Callable[[str, str], None] = lambda _id, _worker: None
    ) -> None:
        self._world = world
        self._calls = ServiceCalls(world, process)
        self._on_run = on_run
        self._fresh = ""
        self.consumer: str | None = None
        """The consumer by which the process reads; None where it polls."""
        self.clock: Clock = RunClock(world, process)
        self.timer = SimTimer(world, process)

    @property
    def ids(self) -> ProcessPorts:
        return self

    def fresh(self) -> str:
        self._fresh = self._world.ids.fresh()
        return self._fresh

    def dice(self) -> float:
        return self._world.ids.dice()

    def spending(self) -> Callable[[], ProcessUsage]:
        return ProcessUsage

    def session(self, worker_id: str) -> Any:
        raise AssertionError("a session of Spark is for code of the user's, and the simulator has none")

    @cached_property
    def _leases(self) -> Leases:
        return Leases(self._calls)

    @cached_property
    def _workers(self) -> Workers:
        return Workers(self._calls)

    @cached_property
    def _lock(self) -> Lock:
        return Lock(self._calls)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._calls)

    @cached_property
    def _source(self) -> Source:
        return Source(self._calls)

    @cached_property
    def _table(self) -> Table:
        return Table(self._calls)

    def leases(self) -> Any:
        return self._leases

    def workers(self) -> Any:
        return self._workers

    def lock(self) -> Any:
        return self._lock

    def tables(self) -> Any:
        return self._tables

    def source(self, user: str) -> Any:
        return self._source

    def table(self, writer: str) -> Any:
        return self._table

    @cached_property
    def _lineage(self) -> Lineage:
        return Lineage(self._calls)

    def table_facts(self, name: str) -> Any:
        raise AssertionError("no duty of the simulated fleet asks for a table's facts")

    def files(self, user: str) -> TableFiles:
        raise AssertionError("no duty of the simulated fleet deletes files")

    def lineage_files(self, user: str) -> TableFiles:
        raise AssertionError("no duty of the simulated fleet deletes files")

    @cached_property
    def _live(self) -> Live:
        return Live(self._calls)

    def live(self, writer: str) -> LiveTable:
        return self._live

    def rewriter(self) -> Rewriter:
        return Rewriting(self._calls)

    def proof(self) -> Any:
        raise AssertionError("the simulator's judges prove its tables")

    def other_side(self, rows: Any, *, files: Any, table: Any) -> Any:
        raise AssertionError(f"the simulator compares {rows} with {files or table} by its judges")

    def proved_tables(self) -> Any:
        raise AssertionError("the simulator's judges prove its tables")

    def processing(self, _processor: Any, _run: str) -> Any:
        raise AssertionError("no processor works here")

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        raise AssertionError("the simulated fleet parses no target")

    def windows(self) -> WindowStore:
        raise AssertionError("the simulated fleet has no windows")

    def replaying(self, window: str, run: str) -> ReplayPorts:
        raise AssertionError("the simulated fleet copies no window")

    def unpacking(self, window: str) -> UnpackPorts:
        raise AssertionError("the simulated fleet takes no aggregate of the lake table apart")

    def lineage(self, writer: str) -> Any:
        return self._lineage

    def pages(self) -> Pages:
        raise AssertionError("the simulator reads no pages: its stage reads the stream in memory")

    def consumers(self, _stream: str) -> Any:
        return Consumers(self._calls)

    def stage(self, worker_id: str) -> Stage:
        """The wiring asks for the stage last, so the id that was made before belongs to the run's claim."""
        self._on_run(self._fresh, worker_id)
        return Stage(self._calls, self.consumer)

    def close(self) -> None:
        """Nothing to close."""
