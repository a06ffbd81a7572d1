"""Kinesis in memory. It records which Dates it answered, and denies for a while that some shards and streams exist."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Child, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.reading import StreamFacts
from tests.memory.source import MemoryRecord, MemorySource

if TYPE_CHECKING:
    from tests.simulation.world import World


class WatchedSource(MemorySource):
    """A denial is a false ResourceNotFound, from GetShardIterator for one shard or from DescribeStreamSummary for a
    stream.
    Listings stay correct meanwhile; late listings are a separate fault."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._world = world
        self.answers: dict[StreamId, dict[datetime, datetime]] = {}
        """For each stream: each Date that Kinesis answered, with the true time of the last answer of that Date."""
        self.denied: dict[ShardKey | str, float] = {}
        """The shards and the names of streams that Kinesis denies, each with the time until which it does so."""
        self._hidden: dict[ShardKey, float] = {}
        """The shards that no listing shows yet, each with the time until which that is so: the listings of a DynamoDB table's stream lag."""
        self._ended: set[ShardKey] = set()
        """The shards that have rolled over."""

    def describe(self, name: str) -> StreamFacts:
        facts = self.facts(name)
        self.answers.setdefault(facts.stream, {})[facts.asked] = self._now()
        return facts

    def facts(self, name: str) -> StreamFacts:
        """As `describe`, for an asker whose answers are none of the fleet's."""
        facts = super().describe(name)
        if self.denied and self._denies(facts.stream.name):
            raise Unknown(f"there is no stream {name} (denied for a while). Nothing was read")
        return facts

    def is_gone(self, key: ShardKey) -> bool:
        return (bool(self.denied) and self._denies(key)) or super().is_gone(key)

    def records(self, key: ShardKey, at: Start | int) -> tuple[MemoryRecord, ...]:
        if self.denied and self._denies(key):
            raise Unknown(f"there is no shard {key} (denied for a while). Nothing was read")
        return super().records(key, at)

    def arrival_now(self) -> datetime:
        return self._now()

    def _now(self) -> datetime:
        now = super()._now()
        # Kinesis tells arrivals in milliseconds, and the reader by fan-out keeps to that.
        return now.replace(microsecond=now.microsecond // 1000 * 1000) if self._world.plan.fan_out else now

    # -- the stream of a DynamoDB table --------------------------------------------------------------------------

    def roll_over(self, key: ShardKey) -> ShardKey:
        child = super().roll_over(key)
        self._ended.add(key)
        rng = self._world.rng
        self._hidden[child] = self._world.sim.now + rng.choice(
            (0.0, rng.uniform(0.0, 10.0), rng.uniform(10.0, 60.0))
        )
        return child

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        if not self._world.plan.of_a_table:
            return super().list_shards(stream, since)
        # DynamoDB knows no filter by time.
        shards = super().list_shards(stream)
        return tuple(shard for shard in shards if not self._is_hidden(ShardKey(stream, shard.shard_id)))

    def children(self, key: ShardKey) -> tuple[Child, ...] | None:
        children = super().children(key)
        # A listing tells them, so that the shard's end isn't told before it shows them.
        if children and any(self._is_hidden(ShardKey(key.stream, child.shard_id)) for child in children):
            return None
        return children

    def _has_news(self, key: ShardKey, at: Start | int) -> bool:
        # A shard that is closed has no further iterator, whether its child is listed or not.
        return super()._has_news(key, at) or (key in self._ended and not self.is_gone(key))

    def _is_hidden(self, key: ShardKey) -> bool:
        return self._world.sim.now < self._hidden.get(key, 0.0)

    def has_forgotten(self, key: ShardKey) -> bool:
        """Whether the shard is really gone: none of its records can be read any more, and no listing shows it."""
        return super().is_gone(key)

    def _denies(self, what: ShardKey | str) -> bool:
        if self._world.sim.now >= self.denied.get(what, 0.0):
            self.denied.pop(what, None)
            return False
        self._world.call_faults.happened["denied"] += 1
        return True


class StreamOfWindows(MemorySource):
    """The same streams, as windows ask for them: beside the fleet, and without a trace in what the judges of the fleet know."""

    def __init__(self, source: WatchedSource) -> None:
        super().__init__(source._clock)
        self._streams, self._prefix = source._streams, source._prefix
        self._fleets, self.denied = source, source.denied

    def describe(self, name: str) -> StreamFacts:
        return self._fleets.facts(name)

    def is_gone(self, key: ShardKey) -> bool:
        return self._fleets.is_gone(key)

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        return self._fleets.list_shards(stream, since)

    def children(self, key: ShardKey) -> tuple[Child, ...] | None:
        return self._fleets.children(key)

    def records(self, key: ShardKey, at: Start | int) -> tuple[MemoryRecord, ...]:
        return self._fleets.records(key, at)
