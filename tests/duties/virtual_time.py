"""A whole deployment in virtual time: the sensors' turns and the runs of the product, and a bill of its DynamoDB requests.

The stream, the lake table, staging and Dagster's runs are in memory. The workers' rows, the leader's lock and the layout are read and
written by boto3 on the stand-in. So are the lease rows, or else they are in memory and the requests are counted that the store on
DynamoDB would send; `tests/duties/fleet/test_counted_leases.py` holds the two ways to the same bill. The stand-in takes 30 ms for a hundred
rows, and an hour of a thousand shards reads millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.app.wiring import Hints, Wiring
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.sensor_turn import RunAsk
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.settings.model import Settings
from tests.duties.bill import Bill, Meter
from tests.duties.counted_leases import CountedLeases
from tests.duties.measured import MeasuringStage, a_load
from tests.memory.clock import CountingIds, MemoryClock
from tests.memory.files import MemoryFiles
from tests.memory.lineage import MemoryLineage
from tests.memory.runs import MemoryRuns
from tests.memory.source import MemorySource
from tests.memory.stage import MemoryStage
from tests.memory.table import MemoryTable

TICK = 5.0
LAUNCH_TICKS = 1
"""Ticks from a sensor's wish for a run until the run begins. A run that finds Spark open begins within seconds."""


@dataclass
class _Event:
    act: Callable[[], object]
    every: float
    at: float


class VirtualTime(MemoryClock):
    """A clock and a timer. What falls due while the clock pauses happens then, in the thread that pauses."""

    def __init__(self) -> None:
        super().__init__()
        self._events: list[_Event] = []

    def pause(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        while (event := min(self._events, key=lambda each: each.at, default=None)) and event.at <= until:
            self._go_to(event.at)
            event.at += event.every
            event.act()
        self._go_to(until)

    def _go_to(self, moment: float) -> None:
        self.advance(timedelta(seconds=max(0.0, moment - self.monotonic())))

    @contextmanager
    def beating(
        self, beat: Callable[[], object], every: timedelta, at_most: timedelta | None = None
    ) -> Iterator[None]:
        seconds = every.total_seconds()
        event = _Event(beat, seconds, self.monotonic() + seconds)
        self._events.append(event)
        try:
            yield
        finally:
            self._events.remove(event)


class HalfReal(Adapters):
    """The product's adapters for DynamoDB; everything else is in memory, and with `counted` the lease rows, too."""

    def __init__(self, settings: Settings, clock: VirtualTime, *, counted: bool) -> None:
        super().__init__(settings)
        self.bills = Meter(self.dynamodb())
        self._counted = CountedLeases(self.bills, settings.lease_table) if counted else None
        memory: Any = self  # the attributes of Adapters have the types of the real ones
        memory.clock, memory.timer = clock, clock.beating
        memory.ids = CountingIds()
        self.stream = MemorySource(clock)
        self.lake = MemoryTable(clock)
        self._lineage = MemoryLineage(self.lake)
        self.memory_stage = MemoryStage(self.stream, clock)
        self._stage = MeasuringStage(self.memory_stage, (a_load(20.0, seconds=10),))

    def leases(self) -> LeaseStore:
        return super().leases() if self._counted is None else self._counted

    def source(self, user: str) -> Any:
        return self.stream

    def table(self, writer: str) -> Any:
        return self.lake

    def files(self, user: str) -> Any:
        return MemoryFiles(self.lake)

    def lineage(self, writer: str) -> Any:
        return self._lineage

    def stage(self, worker_id: str) -> Any:
        return self._stage


@dataclass
class Deployment:
    """One deployment with one worker. `flows`: whether a record arrives in each shard at every tick."""

    settings: Settings
    shards: int
    counted: bool = True
    """Whether the lease rows are in memory."""
    flows: bool = False
    may_fail: bool = False
    """Whether shards may fail in a run."""
    runs_made: int = 0
    clock: VirtualTime = field(default_factory=VirtualTime)

    def __post_init__(self) -> None:
        self.ports = HalfReal(self.settings, self.clock, counted=self.counted)
        self.wiring = Wiring(self.settings, self.ports)
        self.runs = MemoryRuns(self.clock)
        self.worker = self.settings.workers[0].id
        self.life = self.ports.stream.create_stream(self.settings.streams[0].name, self.shards)
        self._cursors: dict[str, str | None] = {}
        self._ask: RunAsk | None = None

    def bill(self, seconds: float) -> tuple[Bill, float]:
        """The bill of at least so many virtual seconds, and how many there were: a run that is at work is waited for."""
        began = self.clock.monotonic()
        with self.ports.bills.listening() as meter, meter.bill() as bill:
            self.let_pass(seconds)
        return bill, self.clock.monotonic() - began

    def let_pass(self, seconds: float) -> None:
        """Let the sensors tick for so long, and start the runs that they ask for. Ends with the end of a run."""
        until = self.clock.monotonic() + seconds
        with self.clock.beating(self._tick, timedelta(seconds=TICK)):
            while self.clock.monotonic() < until:
                self.clock.pause(TICK)
                if self._ask is not None:
                    self._run(self._ask)

    def _tick(self) -> None:
        if self.flows:
            for number in range(self.shards):
                self.ports.stream.put(ShardKey(self.life, f"shardId-{number:012d}"))
        leads, works = self._cursors.get("leader"), self._cursors.get("worker")
        self._cursors["leader"] = self.wiring.leader_turn(leads).cursor
        turn = self.wiring.worker_turn(self.worker, works, instance="dagster", runs=self.runs)
        self._cursors["worker"] = turn.cursor
        self._ask = turn.ask

    def _run(self, ask: RunAsk) -> None:
        self.runs_made += 1
        run = f"run-{self.runs_made}"
        self.runs.launch(run, self.worker)
        self.clock.pause(LAUNCH_TICKS * TICK)
        self.runs.start(run)
        hints = Hints(
            dead_claims=frozenset(ask.dead_claims),
            left_alone=frozenset(ask.left_alone),
            due=frozenset(ask.due),
            failing=frozenset((*ask.recovering, *ask.left_alone)),
            retry_after=ask.retry_after,
        )
        reading = self.wiring.reading(
            run, self.runs, on_wave=lambda _: None, on_waiting=lambda _: None, hints=hints
        )
        ending = reading.everything_due(ask.worker)
        if ending.error is not None or (ending.failed and not self.may_fail):
            raise AssertionError(f"{run} failed: {ending}")
        self.runs.fail(run, tuple(ending.failed))
        self.runs.leave_alone(run, ask.left_alone)
        self._ask = None
