"""A stage whose tasks report the load of their hosts; the test sets what they report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, HostLoad, Manifest
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from tests.memory.stage import MemoryStage


@dataclass
class MeasuringStage:
    """The stage in memory, whose tasks report `loads`."""

    stage_in_memory: MemoryStage
    loads: tuple[HostLoad, ...] = ()

    @property
    def rows(self) -> object:
        return self.stage_in_memory.rows

    def open(self, on_waiting: OnWaiting) -> None:
        self.stage_in_memory.open(on_waiting)

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        return replace(self.stage_in_memory.stage(batches, spec, limits), loads=self.loads)


def a_load(cpu: float | None, host: str = "host-1", seconds: float = 30) -> HostLoad:
    return HostLoad(host, timedelta(seconds=seconds), cpu)
