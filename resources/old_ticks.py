"""Deletes ticks that did nothing from Dagster's storage after some hours. In Dagster's own settings, the shortest
time is a day.

A sensor ticks each five seconds, and a tick takes 1.7 KB with its four indexes: 60 MB a day of a leader and a
worker that have nothing to do. Ticks that asked for a run, or failed, stay for as long as dagster.yaml says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus

from headrace.pipeline.ports.base import Clock

KEPT = timedelta(hours=6)
_EVERY = timedelta(minutes=10)


@dataclass(slots=True, kw_only=True)
class OldTicks:
    sensors: Sequence[str]
    """The names of the application's sensors."""
    clock: Clock
    _due_at: float = float("-inf")
    """When the next deletion is due, by the monotonic clock."""

    def delete(self, instance: dg.DagsterInstance) -> None:
        """Delete the skipped ticks that are older than `KEPT`. Does so once in ten minutes."""
        now = self.clock.monotonic()
        # An instance in memory has no ticks.
        if now < self._due_at or instance.schedule_storage is None:
            return
        self._due_at = now + _EVERY.total_seconds()
        before = (self.clock.now() - KEPT).timestamp()
        for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
            if state.instigator_name in self.sensors:
                instance.purge_ticks(
                    state.instigator_origin_id, state.selector_id, before, tick_statuses=[TickStatus.SKIPPED]
                )
