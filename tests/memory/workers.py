"""The WorkerStore port in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from threading import Lock

from headrace.pipeline.core.leases.worker import BACKDATE_STOPPING, Metrics, Worker
from headrace.pipeline.kcl.report import is_outdated
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import SkippedRow, WorkerListing


class MemoryWorkerStore:
    """`among_leases`: workers' rows are in the lease table, where reading all of them means a scan of the leases."""

    def __init__(self, *, clock: Clock, among_leases: bool = False) -> None:
        self._clock = clock
        self._among_leases = among_leases
        self._rows: dict[str, Worker] = {}
        self._skipped: tuple[SkippedRow, ...] = ()
        self._lock = Lock()

    def listing(self) -> WorkerListing:
        with self._lock:
            return WorkerListing(tuple(self._rows.values()), self._skipped)

    def glance(self, known: Iterable[str]) -> WorkerListing:
        return self.get_many(tuple(known)) if self._among_leases else self.listing()

    def get_many(self, worker_ids: Sequence[str]) -> WorkerListing:
        with self._lock:
            found = (self._rows[each] for each in dict.fromkeys(worker_ids) if each in self._rows)
            return WorkerListing(tuple(found), tuple(row for row in self._skipped if row.key in worker_ids))

    def get(self, worker_id: str) -> Worker | None:
        with self._lock:
            return self._rows.get(worker_id)

    def hold_odd_row(self, key: str, why: str) -> None:
        """Put a row into the table that can't be understood."""
        with self._lock:
            self._skipped = (*self._skipped, SkippedRow(key, why))

    def beat(
        self,
        worker_id: str,
        instance: str,
        *,
        found: str | None,
        leaving: bool = False,
        ticking_since: datetime | None = None,
    ) -> Worker | None:
        with self._lock:
            before = self._rows.get(worker_id, Worker(worker_id))
            # The worker's own instance is accepted too: a first try whose answer was lost may have written it.
            if before.instance not in {found, instance}:
                return None
            if is_outdated(before, self._clock.now()):
                before = _measured(before, Metrics())
            stamp = before.last_update if leaving else self._second()
            return self._put(
                replace(
                    before,
                    beat=before.beat + 1,
                    instance=instance,
                    last_update=stamp,
                    ticked_at=self._clock.now(),
                    ticking_since=ticking_since or before.ticking_since,
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
            stamp = self._second() - BACKDATE_STOPPING if stopping else self._second()
            self._put(replace(self._filled(worker_id), stopping=stopping, last_update=stamp))

    def count_assign_pass(self, worker_id: str) -> None:
        with self._lock:
            before = self._filled(worker_id)
            self._put(replace(before, assign_pass=before.assign_pass + 1))

    def ask(self, worker_id: str) -> None:
        with self._lock:
            before = self._rows.get(worker_id)
            if before is not None and before.is_ours:
                self._put(replace(before, asked=before.asked + 1))

    def note_beater(self, worker_id: str) -> None:
        with self._lock:
            before = self._rows.get(worker_id)
            if before is not None and before.is_ours:
                self._put(replace(before, beaten_at=self._clock.now()))

    def set_notice(self, worker_id: str, notice: str | None) -> None:
        with self._lock:
            if notice is not None or worker_id in self._rows:
                self._put(replace(self._filled(worker_id), notice=notice))

    def report(self, worker_id: str, metrics: Metrics, *, seen: datetime | None) -> bool:
        with self._lock:
            before = self._filled(worker_id)
            if before.measured_at not in {seen, metrics.measured_at}:
                return False
            self._put(replace(_measured(before, metrics), last_update=self._second()))
            return True

    def delete_stale(self, worker: Worker) -> bool:
        if worker.last_update is None:
            return False
        with self._lock:
            found = self._rows.get(worker.worker_id)
            if found is not None and found.last_update != worker.last_update:
                return False
            self._rows.pop(worker.worker_id, None)
            return True

    def wipe(self, worker_id: str) -> None:
        """Delete the row without any condition, as a person could."""
        with self._lock:
            self._rows.pop(worker_id, None)

    def _filled(self, worker_id: str) -> Worker:
        """The worker's row, or a new one with the stamp that KCL's workers expect."""
        return self._rows.get(worker_id) or Worker(worker_id, last_update=self._second())

    def _second(self) -> datetime:
        return self._clock.now().replace(microsecond=0)

    def _put(self, row: Worker) -> Worker:
        self._rows[row.worker_id] = row
        return row


def _measured(row: Worker, metrics: Metrics) -> Worker:
    return replace(
        row,
        stats=metrics.stats,
        ranges=metrics.ranges,
        measured_by=metrics.measured_by,
        measured_at=metrics.measured_at,
    )
