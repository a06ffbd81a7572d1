"""Kinesis with its judge's notebook: which Dates it answered, and which shards and streams it denies to know for a while."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pipeline.core.position import Start
from pipeline.core.stream import ShardKey, StreamId
from pipeline.errors import Unknown
from pipeline.memory.source import MemoryRecord, MemorySource
from pipeline.ports import StreamFacts

if TYPE_CHECKING:
    from tests.simulation.world import World


class WatchedSource(MemorySource):
    """A denial is a false ResourceNotFound: of GetShardIterator for one shard, or of DescribeStreamSummary for a stream.
    Listings tell the truth meanwhile (that they may be late is a fault of its own)."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._world = world
        self.answers: dict[StreamId, dict[datetime, datetime]] = {}
        """By stream: each Date that was answered, with the true moment of the last such answer."""
        self.denied: dict[ShardKey | str, float] = {}
        """Shards, and names of streams, each with the moment until which Kinesis denies it."""

    def describe(self, name: str) -> StreamFacts:
        facts = super().describe(name)
        if self.denied and self._denies(facts.stream.name):
            raise Unknown(f"there is no stream {name} (for a while). Nothing was read")
        self.answers.setdefault(facts.stream, {})[facts.asked] = self._now()
        return facts

    def is_gone(self, key: ShardKey) -> bool:
        return (bool(self.denied) and self._denies(key)) or super().is_gone(key)

    def records(self, key: ShardKey, at: Start | int) -> tuple[MemoryRecord, ...]:
        if self.denied and self._denies(key):
            raise Unknown(f"{key} isn't there (for a while): nothing was read")
        return super().records(key, at)

    def has_forgotten(self, key: ShardKey) -> bool:
        """The truth: nothing of the shard can be read any more, and no listing shows it."""
        return super().is_gone(key)

    def _denies(self, what: ShardKey | str) -> bool:
        if self._world.sim.now >= self.denied.get(what, 0.0):
            self.denied.pop(what, None)
            return False
        self._world.weather.bites["denied"] += 1
        return True
