"""How busy a run's hosts were, written into the worker's row: one average every 30 s, as KCL's workers write it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from headrace.pipeline.core.ledger.batch import HostLoad
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.kcl.metrics import REPORT_PERIOD
from headrace.pipeline.kcl.report import is_due, plan_report
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import WorkerStore
from headrace.pipeline.settings.model import Settings


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """The load of the hosts of one run's tasks. The worker's row says when the last average was added, so that
    several short runs together don't add averages more often than every 30 s.
    """

    worker_id: str
    workers: WorkerStore
    clock: Clock
    settings: Settings
    _loads: tuple[HostLoad, ...] = ()
    _since: float = 0.0
    """The beginning of the time that the loads cover, by the monotonic clock."""

    def note(self, loads: Iterable[HostLoad]) -> None:
        loads = tuple(loads)
        if not self.settings.assignment.cpu or not loads:
            return
        if not self._loads:
            # The first load is about the time before this call.
            self._since = self.clock.monotonic() - max(load.span for load in loads).total_seconds()
        self._loads = (*self._loads, *loads)

    def report_when_due(self) -> None:
        """Called after each wave. Writes nothing before 30 s have passed: an average over less time would leave out the
        pauses between waves."""
        if not self._loads or self.clock.monotonic() - self._since < REPORT_PERIOD.total_seconds():
            return
        # The load is only a hint for the leader. If the write fails, the next wave tries again.
        with suppress(HeadraceError):
            self._report()

    def _report(self) -> None:
        row, now = self.workers.get(self.worker_id), self.clock.now()
        # Another run of the worker may have added an average a moment ago: the list has KCL's pace, whatever the number
        # of runs.
        if not is_due(row, now):
            return
        metrics = plan_report(
            row,
            self._loads,
            now,
            most=self.settings.kcl.max_utilisation,
            network=self.settings.kcl.network_mbps,
        )
        # Refused where another run has added an average meanwhile: these loads then go into the next average.
        if self.workers.report(self.worker_id, metrics, seen=row.measured_at if row else None):
            self._loads = ()
