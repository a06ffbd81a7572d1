"""What the hosts of a run were busy with, told to the worker's row: one average every 30 s, whichever run comes first."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pipeline.core.batch import HostLoad
from pipeline.errors import HeadraceError
from pipeline.kcl.metrics import REPORT_PERIOD
from pipeline.kcl.report import is_due, plan_report
from pipeline.ports import Clock, WorkerStore
from pipeline.settings.model import Settings


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """One run's. The row says when it was last added to, so that runs that come and go don't add too often."""

    worker_id: str
    workers: WorkerStore
    clock: Clock
    settings: Settings
    _loads: tuple[HostLoad, ...] = ()
    _since: float = 0.0
    """When what the loads tell of began."""

    def note(self, loads: Iterable[HostLoad]) -> None:
        loads = tuple(loads)
        if not self.settings.assignment.cpu or not loads:
            return
        if not self._loads:
            self._since = self.clock.monotonic() - max(load.span for load in loads).total_seconds()
        self._loads = (*self._loads, *loads)

    def report_when_due(self) -> None:
        """Called after each wave. An average of less than a period would be one of the work without its pauses."""
        if not self._loads or self.clock.monotonic() - self._since < REPORT_PERIOD.total_seconds():
            return
        # Metrics are hints: what can't be told now is told after the next wave.
        with suppress(HeadraceError):
            self._report()

    def _report(self) -> None:
        row, now = self.workers.get(self.worker_id), self.clock.now()
        if not is_due(row, now):
            return
        metrics = plan_report(
            row,
            self._loads,
            now,
            most=self.settings.kcl.max_utilisation,
            network=self.settings.kcl.network_mbps,
        )
        if self.workers.report(self.worker_id, metrics, seen=row.measured_at if row else None):
            self._loads = ()
