"""What the streams of a worker's rows are, asked of Kinesis once a minute and not at each tick."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from pipeline.core.stream import StreamId
from pipeline.ports import Clock, ShardSource, StreamFacts

_HOLDS = 60.0
"""Seconds. A stream that was deleted and made anew is noticed by the run itself, before it commits."""


@dataclass(slots=True)
class KnownStreams:
    source: ShardSource
    clock: Clock
    _facts: dict[str, tuple[StreamFacts, float]] = field(default_factory=dict)
    """By name, each with the moment until which it is believed."""

    def facts(self, name: str) -> tuple[StreamId, timedelta]:
        """Identity and retention."""
        now = self.clock.monotonic()
        found, until = self._facts.get(name, (None, 0.0))
        if found is None or now > until:
            self._facts.pop(name, None)
            found = self.source.describe(name)
            self._facts[name] = (found, now + _HOLDS)
        return found.stream, found.retention
