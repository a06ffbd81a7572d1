"""Statistic sets: count, sum, least and greatest of many values of one series. CloudWatch and OpenTelemetry
accept them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.metrics.series import Series


@dataclass(slots=True)
class Statistics:
    samples: int
    total: float
    least: float
    most: float
    last: float

    @classmethod
    def of(cls, value: float, times: int = 1) -> Statistics:
        return cls(times, value * times, value, value, value)

    def add(self, value: float, times: int = 1) -> None:
        self.samples += times
        self.total += value * times
        self.last = value
        if value < self.least:
            self.least = value
        elif value > self.most:
            self.most = value

    def merge(self, later: Statistics) -> None:
        self.samples += later.samples
        self.total += later.total
        self.least = min(self.least, later.least)
        self.most = max(self.most, later.most)
        self.last = later.last


@dataclass(frozen=True, slots=True)
class Datum:
    """The values of one series, for one set of dimensions."""

    series: Series
    dimensions: tuple[tuple[str, str], ...]
    """Names and values, `Operation` first."""
    statistics: Statistics
