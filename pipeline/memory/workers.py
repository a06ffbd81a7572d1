"""The worker table in a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from threading import Lock

from pipeline.core.worker import Worker
from pipeline.ports import Clock


class MemoryWorkerStore:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, Worker] = {}
        self._lock = Lock()

    def list(self) -> tuple[Worker, ...]:
        with self._lock:
            return tuple(self._rows.values())

    def get(self, worker_id: str) -> Worker | None:
        with self._lock:
            return self._rows.get(worker_id)

    def beat(self, worker_id: str, instance: str, *, found: str | None) -> Worker | None:
        with self._lock:
            before = self._rows.get(worker_id, Worker(worker_id))
            if before.instance not in {found, instance}:
                return None
            return self._put(
                replace(
                    before,
                    beat=before.beat + 1,
                    instance=instance,
                    last_update=self._clock.now().replace(microsecond=0),
                )
            )

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        with self._lock:
            before = self._filled(worker_id)
            beats = {**before.run_beats, run_claim: before.run_beats.get(run_claim, 0) + 1}
            self._put(replace(before, run_beats=beats))

    def forget_runs(self, worker_id: str, claims: Iterable[str]) -> None:
        gone: set[str] = set(claims)
        with self._lock:
            before = self._rows.get(worker_id)
            if before is not None:
                self._put(
                    replace(before, run_beats={c: n for c, n in before.run_beats.items() if c not in gone})
                )

    def set_stopping(self, worker_id: str, *, stopping: bool) -> None:
        with self._lock:
            self._put(replace(self._filled(worker_id), stopping=stopping))

    def count_assign_pass(self, worker_id: str) -> None:
        with self._lock:
            before = self._filled(worker_id)
            self._put(replace(before, assign_pass=before.assign_pass + 1))

    def wipe(self, worker_id: str) -> None:
        """The row is gone behind everybody's back."""
        with self._lock:
            self._rows.pop(worker_id, None)

    def _filled(self, worker_id: str) -> Worker:
        """A new row says when it was made, for readers of KCL's kind."""
        now = self._clock.now().replace(microsecond=0)
        return self._rows.get(worker_id, Worker(worker_id, last_update=now))

    def _put(self, row: Worker) -> Worker:
        self._rows[row.worker_id] = row
        return row
