"""A host, and its clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.memory.clock import START
from tests.simulation.scheduler import Process, Scheduler


class MachineClock:
    """A clock that is `offset` seconds fast. The clocks of Kinesis and of the lake table have no offset."""

    def __init__(self, sim: Scheduler, offset: float = 0.0, start: datetime = START) -> None:
        self.offset = offset
        self._start = start
        self._sim = sim
        self._at = -1.0
        self._now = start

    def now(self) -> datetime:
        at = self._sim.now + self.offset
        if at != self._at:
            self._at, self._now = at, self._start + timedelta(0, at)
        return self._now

    def monotonic(self) -> float:
        return self._sim.now

    def pause(self, seconds: float) -> None:
        self._sim.pause(seconds)


class Host(MachineClock):
    """A machine whose processes die with it."""

    def __init__(self, name: str, sim: Scheduler, offset: float, start: datetime) -> None:
        super().__init__(sim, offset, start)
        self.name = name
        self.alive = True
        self.processes: dict[Process, None] = {}
