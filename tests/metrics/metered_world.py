"""The small world of the duties, wired with metrics that go into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.duties.waves.run import RunEnding
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.metering import Metering
from headrace.pipeline.metrics.ports import Refusal
from headrace.pipeline.metrics.publishing import Publishing
from headrace.pipeline.metrics.series import Level, Series
from headrace.pipeline.metrics.statistics import Datum, Statistics
from headrace.pipeline.settings.blocks.metrics import MetricsSettings, dimensions_in
from headrace.pipeline.settings.choices import MetricsLevel, MetricsTo
from tests.duties.reading import PortsOf
from tests.duties.world import TICK, World


@dataclass
class MemorySink:
    sent: list[Datum] = field(default_factory=list)
    refusal: Refusal | None = None
    """What the next sendings answer."""

    def send(self, data: Sequence[Datum]) -> Refusal | None:
        if self.refusal is None:
            self.sent += data
        return self.refusal


class TimedPorts(PortsOf):
    """Ports whose timer starts no thread for the beats of a tick or a run."""

    @property
    def timer(self) -> Any:
        return self._beating

    @contextmanager
    def _beating(self, *_: object) -> Iterator[None]:
        yield


@dataclass
class MeteredWorld:
    world: World = field(default_factory=World)
    level: MetricsLevel = MetricsLevel.DETAILED
    dimensions: str = "ALL"
    cursors: dict[str, str | None] = field(default_factory=dict)
    sink: MemorySink = field(default_factory=MemorySink)

    def __post_init__(self) -> None:
        metrics = MetricsSettings(
            to=MetricsTo.CLOUDWATCH, level=self.level, dimensions=self.dimensions, every=timedelta(minutes=5)
        )
        self.world.settings = settings = replace(self.world.settings, metrics=metrics)
        gathering = Gathering(
            level=Level[metrics.level], dimensions=dimensions_in(metrics.dimensions), most=metrics.most_series
        )
        self.publishing = Publishing(gathering, lambda: self.sink, every=metrics.every)
        metering = Metering(settings, self.world.clock, self.publishing)
        self.wiring = Wiring(settings, TimedPorts(self.world), metering=metering)  # type: ignore[arg-type]

    def tick(self, times: int = 1) -> None:
        """A tick of the leader's sensor and of each worker's, time after time."""
        for _ in range(times):
            self.lead()
            for worker in self.world.workers:
                self.work(worker)
            self.world.clock.advance(TICK)

    def lead(self) -> str:
        turn = self.wiring.leader_turn(self.cursors.get("leader"))
        self.cursors["leader"] = turn.cursor
        return turn.sentence

    def work(self, worker: str) -> None:
        turn = self.wiring.worker_turn(
            worker, self.cursors.get(worker), instance="dagster", runs=self.world.runs
        )
        self.cursors[worker] = turn.cursor

    def run(self, run: str = "run", worker: str = "w1", **hooks: Any) -> RunEnding:
        self.world.runs.launch(run, worker)
        self.world.runs.start(run)
        reading = self.wiring.reading(
            run, self.world.runs, on_wave=lambda _: None, on_waiting=lambda _: None, **hooks
        )
        try:
            return reading.everything_due(worker)
        finally:
            self.world.runs.end(run)

    def sent(self) -> list[Datum]:
        """All that was sent, and what waits to be sent."""
        self.publishing.flush()
        return self.sink.sent

    def of(self, series: Series, **dimensions: str) -> Statistics:
        """The statistics of one series, over everything that was sent."""
        wanted = {"Operation": series.operation, **dimensions}.items()
        found = [
            datum.statistics
            for datum in self.sent()
            if datum.series is series and wanted <= dict(datum.dimensions).items()
        ]
        if not found:
            raise AssertionError(f"nothing was sent of {series} {dimensions}")
        total = replace(found[0])
        for later in found[1:]:
            total.merge(later)
        return total

    def close(self) -> None:
        self.publishing.close()
