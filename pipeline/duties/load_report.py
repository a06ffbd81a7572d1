"""What the hosts of a run were busy with, told to the worker's row: one average every 30 s, whichever run comes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.core.batch import HostLoad
from pipeline.errors import HeadraceError
from pipeline.kcl.metrics import REPORT_PERIOD
from pipeline.kcl.report import next_report, plan_report
from pipeline.ports import Clock, WorkerStore
from pipeline.settings import MetricsSettings


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """One run's. The row says when it was last added to, so that runs that come and go don't add too often."""

    worker_id: str
    workers: WorkerStore
    clock: Clock
    settings: MetricsSettings
    _loads: tuple[HostLoad, ...] = ()
    _not_before: float = 0.0

    def note(self, loads: Iterable[HostLoad]) -> None:
        if self.settings.cpu:
            self._loads = (*self._loads, *loads)

    def tell(self) -> None:
        """Called after each wave. What can't be told now is told with the next one: metrics are hints."""
        if not self._loads or self.clock.monotonic() < self._not_before:
            return
        try:
            self._tell()
        except HeadraceError:
            self._not_before = self.clock.monotonic() + REPORT_PERIOD.total_seconds()

    def _tell(self) -> None:
        row, now = self.workers.get(self.worker_id), self.clock.now()
        wait = next_report(row, now)
        if not wait:
            metrics = plan_report(
                row,
                self._loads,
                now,
                most=self.settings.max_utilisation,
                network=self.settings.network_mbps,
            )
            if self.workers.report(self.worker_id, metrics, seen=row.measured_at if row else None):
                self._loads = ()
            wait = REPORT_PERIOD
        self._not_before = self.clock.monotonic() + wait.total_seconds()
