"""The identity and retention of streams, asked of Kinesis once a minute instead of at each tick of a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import ShardSource, StreamFacts

_VALID_FOR = 60.0
"""Seconds. A minute too late does no harm: before it commits, a run itself sees that a stream was created again."""


@dataclass(slots=True)
class KnownStreams:
    source: ShardSource
    clock: Clock
    _facts: dict[str, tuple[StreamFacts, float]] = field(default_factory=dict)
    """By stream name, each with the monotonic time until which it is used."""

    def facts(self, name: str) -> tuple[StreamId, timedelta]:
        """The identity and the retention of the stream with this name."""
        now = self.clock.monotonic()
        stream_facts, until = self._facts.get(name, (None, 0.0))
        if stream_facts is None or now > until:
            # Out before the question: where Kinesis doesn't answer, no tick goes on by facts that
            # are out of date.
            self._facts.pop(name, None)
            stream_facts = self.source.describe(name)
            self._facts[name] = (stream_facts, now + _VALID_FOR)
        return stream_facts.stream, stream_facts.retention
