"""A series of metrics: its operation, name, unit and level, and which dimensions it has besides the operation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum


class Unit(StrEnum):
    """The units of series, in the words that CloudWatch has for them."""

    COUNT = "Count"
    BYTES = "Bytes"
    MILLISECONDS = "Milliseconds"
    SECONDS = "Seconds"


class Level(IntEnum):
    """KCL's levels of metrics. A series is sent if its level is at least the one in the settings."""

    DETAILED = 1
    SUMMARY = 2
    NONE = 3


class Dimension(StrEnum):
    OPERATION = "Operation"
    SHARD = "ShardId"
    STREAM = "StreamId"
    """A stream as KCL names it in an application with several streams: `account:name:epoch`."""
    STREAM_NAME = "StreamName"
    WORKER = "WorkerIdentifier"
    TARGET = "Target"
    """A typed table, by its name in the settings."""
    CALL = "Call"
    """A request of AWS, such as `dynamodb:UpdateItem`."""


class Instrument(Enum):
    """Which of OpenTelemetry's instruments a series is."""

    COUNTER = "counter"
    """Values are added up."""
    HISTOGRAM = "histogram"
    """Each value is one measurement."""
    GAUGE = "gauge"
    """The newest value counts."""


@dataclass(
    frozen=True, slots=True, eq=False
)  # each series is one object, so that finding one in a dictionary costs little
class Series:
    operation: str
    name: str
    unit: Unit
    level: Level
    dimensions: tuple[Dimension, ...] = ()
    kind: Instrument = Instrument.COUNTER

    def __str__(self) -> str:
        return f"{self.operation} {self.name}"
