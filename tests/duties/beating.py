"""A world in which `headrace beat` runs beside a worker's ticks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.duties.fleet.beater import BeaterMemory, BeaterReport
from headrace.pipeline.settings.choices import Beat, Mode
from tests.duties.moves import row_of, shared
from tests.duties.reading import wiring_of
from tests.duties.world import World

FAILOVER = timedelta(seconds=10)
EVERY = FAILOVER / 3 - timedelta(milliseconds=25)


class BeatenWorld:
    """A world in which `headrace beat` runs for w1, beside its ticks."""

    def __init__(self, mode: Mode = Mode.OWN) -> None:
        self.world = shared(World(shards=2))
        kcl = replace(self.world.settings.kcl, failover=FAILOVER, beat=Beat.PROCESS, mode=mode)
        self.world.settings = replace(self.world.settings, kcl=kcl)
        self.memory = BeaterMemory()
        self.world.tick(3 if mode is Mode.OWN else 10)

    def turn(self) -> BeaterReport:
        report = wiring_of(self.world).beater("w1").turn(self.memory)
        self.memory = report.memory
        return report

    def turns(self, seconds: float) -> list[BeaterReport]:
        """Turns, each with the time until the next one, for so many seconds."""
        reports = []
        for _ in range(int(seconds / EVERY.total_seconds())):
            reports.append(self.turn())
            self.world.clock.advance(EVERY)
        return reports

    def counters(self) -> list[int]:
        return [row_of(self.world, shard).counter for shard in range(2)]
