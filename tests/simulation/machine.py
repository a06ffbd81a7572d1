"""A machine, and its clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from pipeline.memory.clock import START
from tests.simulation.scheduler import Process, Scheduler


class Host:
    """A machine, and its clock."""

    def __init__(self, name: str, sim: Scheduler, offset: float) -> None:
        self.name = name
        self.offset = offset
        self.alive = True
        self.processes: dict[Process, None] = {}
        self._sim = sim

    def now(self) -> datetime:
        return START + timedelta(seconds=self._sim.now + self.offset)

    def monotonic(self) -> float:
        return self._sim.now
