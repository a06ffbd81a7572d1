"""The judge of rows that are deleted: does no process need the row any more (I7)?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


def judge_delete(world: World, before: Lease, by: Process) -> None:
    """I7: an open row of a living stream stays, and so does the tombstone of a shard whose children are unread."""
    stream = world.truth.stream_of(before) or world.truth.stream
    if not world.truth.lives(stream) or (before.stream_epoch or stream.epoch) < stream.epoch:
        return
    if (taken_out := world.truth.taken_out.get(stream.name)) is not None:
        _judge_forgotten(world, before, taken_out, by)
        return
    key = ShardKey(stream, before.shard_id)
    shard = world.truth.shards.get(key)
    if shard is None or world.is_unlisted(key):
        return
    if not before.has_ended:
        raise Violation("I7", f"{by} deleted the open row {before.key}", before.key)
    # An incomplete listing may leave the shard out. That does no harm once the shard's children are being read.
    waiting = [c for c in shard.children if world.truth.shards[ShardKey(stream, c)].token is None]
    if waiting:
        raise Violation(
            "I7",
            f"{by} deleted the tombstone {before.key}, though these children are unread: {waiting}",
            before.key,
        )


def shortest_wait_of_former(world: World, taken_out: float) -> float:
    """Seconds for which the rows of a stream stay at the least that was taken out then. Each clock that jumps since may shorten the wait."""
    jumps = sum(at > taken_out for at, _ in world.jumps)
    return world.former_wait.total_seconds() - 45.0 * jumps - 1.0


def _judge_forgotten(world: World, before: Lease, taken_out: float, by: Process) -> None:
    """The rows of a former stream stay until the wait that the settings name has passed."""
    waited = world.sim.now - taken_out
    if waited < shortest_wait_of_former(world, taken_out) and not before.has_ended:
        raise Violation(
            "I7", f"{by} deleted {before.key} {waited:.0f} s after its stream was taken out", before.key
        )
    world.call_faults.happened["forgotten_rows"] += 1
