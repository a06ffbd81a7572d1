"""The port of metrics: a sink to which statistic sets are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.pipeline.metrics.statistics import Datum


@dataclass(frozen=True, slots=True)
class Refusal:
    """Values that a sink couldn't send, and why."""

    why: str
    """A sentence for people."""
    values: int
    """How many values were in it."""


Send = Callable[[Sequence[Datum]], Refusal | None]
"""Sends all of the data. It raises nothing: whoever gathers metrics has other work to do."""
