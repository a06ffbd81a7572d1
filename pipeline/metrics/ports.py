"""The port of metrics: where statistic sets go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.metrics.statistics import Datum


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a sink couldn't send."""

    why: str
    """A sentence for people."""
    values: int
    """How many values were in it."""


class MetricsSink(Protocol):
    def send(self, data: Sequence[Datum]) -> Refusal | None:
        """Send all of it. Raises nothing: whoever gathers metrics has other work to do."""
        ...
