"""A lake table and a typed table with Dagster's definitions of them. What Spark's tasks do is done in this process, and no run reads Kinesis."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from headrace.pipeline.clock import SystemIds, thread_timer
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.windows.ports import ReplayPorts, WindowStore
from tests.lake.samples import StandingClock
from tests.windows.replacements import ReplaceBed


@dataclass
class PortsOfBed:
    bed: ReplaceBed
    through: Mapping[StreamId, datetime] = field(default_factory=dict)
    """Up to when the lake table states that it has all records."""
    ids = SystemIds()
    timer = staticmethod(thread_timer)

    @property
    def clock(self) -> StandingClock:
        return self.bed.clock

    def table(self, _writer: str) -> "_Stated":
        return _Stated(self)

    def windows(self) -> WindowStore:
        return self.bed.windowing().windows

    def lineage(self, _writer: str) -> LineageTable:
        return self.bed.windowing().lineage

    def replaying(self, window: str, _run: str) -> ReplayPorts:
        return self.bed.ports_of(window)

    def parsing(self, _target: ParseSettings, _run: str) -> ParsePorts:
        return self.bed.ports()

    def table_facts(self, _name: str) -> TableDescription | None:
        return None

    def close(self) -> None:
        """Nothing was started."""


@dataclass
class _Stated:
    """The lake table, with what it states in the place of what readers have seen."""

    ports: PortsOfBed

    def exists(self) -> bool:
        return self.ports.bed.lake.handle().exists()

    def load(self) -> TableState:
        return replace(self.ports.bed.lake.handle().load(), through=dict(self.ports.through))


def as_ports(ports: PortsOfBed) -> Any:
    """All that Dagster's definitions need of the ports in these tests."""
    return ports
