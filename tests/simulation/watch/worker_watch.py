"""The worker table and the judge of its writes: when did each worker and each run beat last?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.leases.worker import Worker
from tests.memory.workers import MemoryWorkerStore
from tests.simulation.watch.lease_watch import ODD
from tests.simulation.watch.left_watch import judge_forgotten
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_STEADY = 10.0
"""Seconds. A run beats steadily while no two of its beats are farther apart."""
PERSON = "person"
"""The beginning of the run ids of people's commands."""


class WatchedWorkers(MemoryWorkerStore):
    """The worker table. It records by the true clock when each worker and each claim beat last."""

    def __init__(self, world: World) -> None:
        super().__init__(clock=world.clock)
        if world.plan.odd_rows:
            self.hold_odd_row(ODD, "its form is unknown")
        self._world = world
        self._sim = world.sim
        self._kept = world.kept
        self.beaten: dict[str, float] = {}
        """By claim: when it beat last."""
        self.steady: dict[str, float] = {}
        """By claim: since when it has beaten without a longer pause than `_STEADY`."""
        self._beats: dict[str, list[float]] = {}

    def silence(self, worker_id: str, seen: float) -> float:
        """How long the worker had not beaten at the time `seen`."""
        beats = self._beats.get(worker_id, [])
        at = bisect_right(beats, seen)
        return seen - (beats[at - 1] if at else 0.0)

    def beats_of(self, worker_id: str) -> list[float]:
        """When the worker beat."""
        return self._beats.get(worker_id, [])

    def names(self) -> list[str]:
        return list(self._beats)

    def delete_stale(self, worker: Worker) -> bool:
        """I7: a worker's row is deleted once the worker hasn't beaten for a day, even if the deleting host's clock
        is some minutes off."""
        silent = timedelta(seconds=self.silence(worker.worker_id, self._sim.now))
        if silent < timedelta(days=1) - timedelta(minutes=10):
            raise Violation(
                "I7", f"the row of {worker.worker_id} is deleted after {silent}", worker.worker_id
            )
        return super().delete_stale(worker)

    def forget_runs(self, worker_id: str, claims: Iterable[str]) -> None:
        forgotten = tuple(claims)
        judge_forgotten(self._world, forgotten)
        super().forget_runs(worker_id, forgotten)

    def set_stopping(self, worker_id: str, *, stopping: bool) -> Any:
        done = super().set_stopping(worker_id, stopping=stopping)
        if stopping:
            self._kept.note_stop(worker_id)
        return done

    def beat(self, worker_id: str, instance: str, **how: Any) -> Worker | None:
        done = super().beat(worker_id, instance, **how)
        if done is not None:
            self._beats.setdefault(worker_id, []).append(self._sim.now)
        return done

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        super().beat_run(worker_id, run_claim)
        if run_claim.startswith(PERSON):
            return  # a person's command removes this beat at the same moment, so no other process sees it
        now = self._sim.now
        self._beats.setdefault(worker_id, []).append(now)
        if now - self.beaten.get(run_claim, -1e9) > _STEADY:
            self.steady[run_claim] = now
        self.beaten[run_claim] = now
