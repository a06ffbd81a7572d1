"""The ports of one process, as `pipeline.wiring` asks for them: the product's own wiring makes the duties of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipeline.errors import HeadraceError
from pipeline.ports import Clock, Pages
from tests.simulation.ports import Door, Leases, Lock, Source, Stage, Table, Tables, Workers
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class SimTimer:
    """A timer of the same process beside its work."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    @contextmanager
    def beating(
        self, beat: Callable[[], object], every: timedelta, *, at_most: timedelta | None = None
    ) -> Iterator[None]:
        at_work = _Beating(self._world, self._process, beat, every.total_seconds(), at_most)
        try:
            yield
        finally:
            at_work.is_on = False


class _Beating:
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
        sim.spawn(self._process, self._once)

    def _once(self) -> None:
        with suppress(HeadraceError):
            self._beat()


class ProcessPorts:
    """`on_run` hears of each run that is put together here, by its claim and its worker, before it does anything."""

    def __init__(
        self, world: World, process: Process, on_run: Callable[[str, str], None] = lambda _id, _worker: None
    ) -> None:
        self._world = world
        self._door = Door(world, process)
        self._on_run = on_run
        self._fresh = ""
        self.clock: Clock = process.host
        self.timer = SimTimer(world, process)

    @property
    def ids(self) -> ProcessPorts:
        return self

    def fresh(self) -> str:
        self._fresh = self._world.ids.fresh()
        return self._fresh

    def dice(self) -> float:
        return self._world.ids.dice()

    @cached_property
    def _leases(self) -> Leases:
        return Leases(self._door)

    @cached_property
    def _workers(self) -> Workers:
        return Workers(self._door)

    @cached_property
    def _lock(self) -> Lock:
        return Lock(self._door)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._door)

    @cached_property
    def _source(self) -> Source:
        return Source(self._door)

    @cached_property
    def _table(self) -> Table:
        return Table(self._door)

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

    def pages(self) -> Pages:
        raise AssertionError("no page is read here: the memory stage reads its stream itself")

    def stage(self, worker_id: str) -> Stage:
        """The last part of a run that the wiring asks for: its claim was the fresh id before."""
        self._on_run(self._fresh, worker_id)
        return Stage(self._door)

    def close(self) -> None:
        """Nothing is held."""
