"""The interface by which the wiring has ticks, runs, and waves of typed tables measured.

    Metering      measures
    NoMetering    measures nothing: metrics are off, which is the default

One object for each process and application. A sensor's tick leaves its values for the thread that sends. A run
sends its last values before it ends, also where an error or a person ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
from headrace.pipeline.duties.fleet.sensor_turn import LastTick, Turn
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.waves.report import OnStep, WaveReport, WaveStep
from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.of_leader import LeaderLeaseWatch, LeaderTickWatch
from headrace.pipeline.metrics.of_runs import RunLeaseWatch, WaveWatch, watched_reports
from headrace.pipeline.metrics.of_workers import WorkerLeaseWatch
from headrace.pipeline.metrics.publishing import Publishing
from headrace.pipeline.metrics.watched import watched, watched_leases
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaseStore, WorkerStore
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.choices import Mode
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.done_wave import Wave

OnWave = Callable[[WaveReport], None]
OfLeases = Callable[[LeaseStore], LeaseStore]


@dataclass(slots=True)
class WorkerTick:
    """One tick of a worker's sensor."""

    leases: OfLeases
    """Gives the store to make the tick with."""
    turn: Turn | None = None
    """To be set once the tick has ended; None where it raised."""


@dataclass(slots=True)
class RunMeter:
    """The functions that a run calls at its waves and steps, so that they are counted."""

    on_wave: OnWave
    on_step: OnStep


class NoMetering:
    def leading(self, duty: LeaderDuty) -> AbstractContextManager[LeaderDuty]:
        return nullcontext(duty)

    def working(
        self, worker_id: str, last_tick: LastTick[WorkerMemory]
    ) -> AbstractContextManager[WorkerTick]:
        return nullcontext(WorkerTick(lambda leases: leases))

    def run(self, on_wave: OnWave, on_step: OnStep) -> RunMeter:
        return RunMeter(on_wave, on_step)

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()

    def leases_of_run(self, leases: LeaseStore, worker_id: str) -> LeaseStore:
        return leases

    def workers_of_run(self, workers: WorkerStore) -> WorkerStore:
        return workers

    def parsed(self, target: str, wave: Wave) -> None: ...


@dataclass(slots=True)
class Metering:
    settings: Settings
    clock: Clock
    publishing: Publishing
    _retentions: dict[str, timedelta] = field(default_factory=dict)
    """By stream name, as Kinesis last told the leader."""
    _has_led: bool = False
    """Whether the leader's sensor has made a tick in this process."""
    _watches: list[WaveWatch] = field(default_factory=list)
    """Those of the runs of this process."""

    # -- sensors ---------------------------------------------------------------------------------------------------

    @contextmanager
    def leading(self, duty: LeaderDuty) -> Iterator[LeaderDuty]:
        """Measure a tick of the leader's sensor, which is made within the `with` block, with the duty that the
        block gets.
        """
        self.publishing.begin()
        gathering, began = self.publishing.gathering, self.clock.monotonic()
        writes = LeaderLeaseWatch(gathering)
        leases = watched_leases(duty.leases, writes, self.clock.monotonic)
        # A copy of the duty with watched ports, so that the duty itself knows nothing of metrics.
        metered = replace(duty, leases=leases, source=self._remembering(duty.source))
        try:
            yield metered
        finally:
            if not self._has_led:
                self._has_led = True
                gathering.add(kcl.INITIALIZE, metered.look.report is not None)
            tick = LeaderTickWatch(
                gathering=gathering, settings=self.settings, retentions=self._retentions, leases=writes
            )
            tick.ticked(metered.look, took=self._since(began), now=self.clock.now())

    def _remembering(self, source: ShardSource) -> ShardSource:
        """The source, of which each answer about a stream's retention is remembered."""

        def describe(name: str) -> StreamFacts:
            facts = source.describe(name)
            self._retentions[facts.stream.name] = facts.retention
            return facts

        return watched(source, describe=describe)

    @contextmanager
    def working(self, worker_id: str, last_tick: LastTick[WorkerMemory]) -> Iterator[WorkerTick]:
        """Measure a tick of the worker's sensor, which is made within the `with` block."""
        self.publishing.begin()
        began, before = self.clock.monotonic(), last_tick.memory
        watch = WorkerLeaseWatch(
            gathering=self.publishing.gathering,
            worker_id=worker_id,
            takes=self.settings.kcl.mode is not Mode.OWN,
        )
        tick = WorkerTick(lambda leases: watched_leases(leases, watch, self.clock.monotonic))
        try:
            yield tick
        finally:
            watch.ticked(tick.turn, before=before, after=last_tick.memory, took=self._since(began))

    def _since(self, began: float) -> float:
        return (self.clock.monotonic() - began) * 1000

    # -- runs ------------------------------------------------------------------------------------------------------

    def run(self, on_wave: OnWave, on_step: OnStep) -> RunMeter:
        """The functions that a run calls with its waves' reports and steps."""
        watch = WaveWatch(self.publishing.gathering, self.clock.monotonic)
        self._watches.append(watch)

        def wave(report: WaveReport) -> None:
            watch.wave(report)
            on_wave(report)

        def step(wave_step: WaveStep, keys: tuple[str, ...]) -> None:
            watch.step(wave_step, keys)
            on_step(wave_step, keys)

        return RunMeter(wave, step)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure a run for one worker, which works within the `with` block."""
        self.publishing.begin()
        try:
            yield
        finally:
            for watch in self._watches:
                # Also where the run was cancelled: Dagster's termination passes through this
                # `finally`.
                watch.settle()
            self.publishing.finish()

    def leases_of_run(self, leases: LeaseStore, worker_id: str) -> LeaseStore:
        watch = RunLeaseWatch(self.publishing.gathering, worker_id)
        return watched_leases(leases, watch, self.clock.monotonic)

    def workers_of_run(self, workers: WorkerStore) -> WorkerStore:
        return watched_reports(workers, self.publishing.gathering, self.clock.monotonic)

    # -- the rest --------------------------------------------------------------------------------------------------

    def parsed(self, target: str, wave: Wave) -> None:
        """Called after a wave of a typed table."""
        self.publishing.begin()
        gathering = self.publishing.gathering
        gathering.add(own.ROWS_PARSED, wave.landed, target)
        gathering.add(own.ROWS_QUARANTINED, wave.aside, target)


Meters = Metering | NoMetering
