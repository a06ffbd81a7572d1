"""A task that reads where another stream of the same name answers: another account, or an endpoint of its own. Nothing of it may land."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.stream import ShardKey
from tests.memory.source import MemorySource

if TYPE_CHECKING:
    from tests.simulation.world import World

_RECORDS = 20


class Elsewhere:
    def __init__(self, world: World) -> None:
        self._world = world
        self._other: MemorySource | None = None

    def answers(self, key: ShardKey) -> MemorySource:
        """The streams that a task finds where it reads this shard."""
        world = self._world
        if not world.call_faults.occurs("elsewhere"):
            return world.source
        world.note("trouble", f"a task that reads {key.shard_id} finds another stream of that name")
        if self._other is None:
            self._other = self._made()
        return self._other

    def _made(self) -> MemorySource:
        """The other streams: younger than the fleet's, with records of their own."""
        world = self._world
        other = MemorySource(world.clock)
        for name in world.truth.living:
            stream = other.create_stream(name, world.plan.shards)
            for shard in other.list_shards(stream):
                for _ in range(_RECORDS):
                    other.put(ShardKey(stream, shard.shard_id), b"another project's")
        return other
