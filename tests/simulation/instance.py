"""The runs that a Dagster instance knows, and how a process asks the instance about them."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.core.leases.due import RunState, RunVerdict
from headrace.pipeline.ports.runs import RunOutcome
from tests.simulation.ports import ServiceCalls


class RunRecord:
    """A run as one Dagster instance knows it."""

    __slots__ = ("failed", "left_alone", "passing", "run_id", "started", "state", "worker")

    def __init__(self, run_id: str, worker: str, left_alone: tuple[str, ...]) -> None:
        self.run_id = run_id
        self.worker = worker
        self.left_alone = left_alone
        self.state = RunState.WAITING
        self.started: Any = None
        self.failed: tuple[str, ...] = ()
        self.passing = False


class Instance:
    """One Dagster instance: its runs, its cursors, and the run keys that it has seen. It survives the death of its
    host."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs: dict[str, RunRecord] = {}
        self.open: dict[str, dict[str, None]] = {}
        self.newest: dict[str, str] = {}
        self.cursors: dict[str, str] = {}
        self.run_keys: set[str] = set()

    def launch(self, run_id: str, worker: str, left_alone: tuple[str, ...] = ()) -> None:
        self.runs[run_id] = RunRecord(run_id, worker, left_alone)
        self.open.setdefault(worker, {})[run_id] = None
        self.newest[worker] = run_id

    def start(self, run_id: str, now: Any) -> bool:
        run = self.runs[run_id]
        if run.state is not RunState.WAITING:
            return False
        run.state, run.started = RunState.STARTED, now
        return True

    def end(self, run_id: str, failed: tuple[str, ...] = (), *, passing: bool = False) -> None:
        """Note the end of a run, unless Dagster has ended it already."""
        run = self.runs.get(run_id)  # None if the Dagster storage was lost after the run began
        if run is not None and run.state is not RunState.OVER:
            run.state, run.failed, run.passing = RunState.OVER, failed, passing
            self.open[run.worker].pop(run_id, None)


class Runs:
    """What Dagster says about runs, as one process reads it by its own clock."""

    def __init__(self, calls: ServiceCalls, instance: Instance | None) -> None:
        self._calls = calls
        self._instance = instance

    def verdict(self, run_id: str) -> RunVerdict:
        self._calls.world.sim.pause(0.001)
        run = self._instance.runs.get(run_id) if self._instance else None
        if run is None:
            return RunVerdict(RunState.UNKNOWN)
        if run.state is not RunState.STARTED:
            return RunVerdict(run.state)
        return RunVerdict(run.state, self._calls.process.host.now() - run.started)

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        self._calls.world.sim.pause(0.001)
        return tuple(self._instance.open.get(worker_id, ())) if self._instance else ()

    def latest(self, worker_id: str) -> str | None:
        self._calls.world.sim.pause(0.001)
        return self._instance.newest.get(worker_id) if self._instance else None

    def outcome(self, run_id: str) -> RunOutcome:
        self._calls.world.sim.pause(0.001)
        run = self._instance.runs.get(run_id) if self._instance else None
        return RunOutcome() if run is None else RunOutcome(run.failed, run.left_alone, transient=run.passing)
