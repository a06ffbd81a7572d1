"""The Runs port in memory: a test says which runs exist and in which state they are."""

from __future__ import annotations

from datetime import timedelta

from headrace.pipeline.core.leases.due import RunState, RunVerdict
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.runs import RunOutcome


class MemoryRuns:
    """Runs that the test didn't name are unknown, as the runs of another deployment are to Dagster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[str, RunState] = {}
        self._started: dict[str, float] = {}
        self._workers: dict[str, str] = {}
        self._failed: dict[str, tuple[str, ...]] = {}
        self._left_alone: dict[str, tuple[str, ...]] = {}
        self._not_begun: dict[str, str] = {}

    def verdict(self, run_id: str) -> RunVerdict:
        state = self._states.get(run_id, RunState.UNKNOWN)
        if state is not RunState.STARTED:
            return RunVerdict(state)
        return RunVerdict(state, timedelta(seconds=self._clock.monotonic() - self._started[run_id]))

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        return tuple(
            run
            for run, state in self._states.items()
            if state is not RunState.OVER and self._workers.get(run) == worker_id
        )

    def latest(self, worker_id: str) -> str | None:
        mine = [run for run, worker in self._workers.items() if worker == worker_id]
        return mine[-1] if mine else None

    def outcome(self, run_id: str) -> RunOutcome:
        return RunOutcome(
            self._failed.get(run_id, ()),
            self._left_alone.get(run_id, ()),
            began=run_id not in self._not_begun,
            why_not_begun=self._not_begun.get(run_id, ""),
        )

    def launch(self, run_id: str, worker_id: str) -> None:
        """Dagster has queued a run for this worker."""
        self._workers[run_id] = worker_id
        self._states[run_id] = RunState.WAITING

    def start(self, run_id: str) -> None:
        self._states[run_id] = RunState.STARTED
        self._started[run_id] = self._clock.monotonic()

    def end(self, run_id: str) -> None:
        self._states[run_id] = RunState.OVER

    def leave_alone(self, run_id: str, shards: tuple[str, ...]) -> None:
        """The run was asked to leave these shards alone."""
        self._left_alone[run_id] = shards

    def fail(self, run_id: str, shards: tuple[str, ...]) -> None:
        """The run is over, and these shards failed in it."""
        self.end(run_id)
        self._failed[run_id] = shards

    def end_before_it_begins(self, run_id: str, why: str = "") -> None:
        """The run's code couldn't be loaded."""
        self.end(run_id)
        self._not_begun[run_id] = why

    def forget(self, run_id: str) -> None:
        """Dagster doesn't know the run any more, as if another Dagster instance had launched it."""
        self._states.pop(run_id, None)
