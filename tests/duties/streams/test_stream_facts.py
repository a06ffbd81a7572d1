"""A worker's sensor has its streams described once a minute, and anew after a change of the AWS account."""

from __future__ import annotations

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.ports.reading import StreamFacts
from tests.duties.reading import PortsOf
from tests.duties.world import STREAM, TICK, World
from tests.memory.source import MemorySource


class CountingSource(MemorySource):
    described = 0

    def describe(self, name: str) -> StreamFacts:
        self.described += 1
        return super().describe(name)


class Sensor:
    """The sensor of a worker at rest, in one process."""

    def __init__(self) -> None:
        self.world = World()
        self.world.source = CountingSource(self.world.clock)
        self.world.stream = self.world.source.create_stream(STREAM, self.world.shards)
        self.world.settle()
        self.world.wave()
        self._wiring = Wiring(self.world.settings, PortsOf(self.world))  # type: ignore[arg-type] # a worker's tick has no timer
        self._cursor: str | None = None

    def descriptions(self, source: CountingSource, *, ticks: int) -> int:
        """How often so many ticks have a stream described by this source."""
        before = source.described
        self.world.source = source
        for _ in range(ticks):
            runs = self.world.runs
            turn = self._wiring.worker_turn("w1", self._cursor, instance="dagster-1", runs=runs)
            self._cursor = turn.cursor
            self.world.clock.advance(TICK)
        return source.described - before


def test_a_stream_is_described_once_a_minute() -> None:
    sensor = Sensor()
    assert isinstance(sensor.world.source, CountingSource)
    assert sensor.descriptions(sensor.world.source, ticks=24) == 2


def test_after_a_change_of_the_aws_account_the_stream_is_described_at_the_next_tick() -> None:
    sensor = Sensor()
    assert isinstance(sensor.world.source, CountingSource)
    sensor.descriptions(sensor.world.source, ticks=2)
    other = CountingSource(sensor.world.clock, account="999999999999")
    other.create_stream(STREAM, 2)
    assert sensor.descriptions(other, ticks=1) == 1
