"""The judge of backfills (I1): a partition that one takes for complete has all of its records in the lake table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.pipeline.windows.backfill import HoursOfPartition
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


def judge_complete(world: World, done: Iterable[HoursOfPartition]) -> None:
    """Records that were trimmed before they were read are judged by other rules."""
    kept = world.clock.now() - world.losses.retention
    parts = tuple(done)
    for shard in world.truth.shards.values():
        stream, origin = shard.key.stream, world.table.origins.get(shard.key.stream)
        if (
            not world.truth.lives(stream)
            or stream.name in world.truth.taken_out
            or stream not in world.losses.decided
        ):
            continue
        # What KCL had read of an adopted shard is read by nobody.
        first = max(shard.read, shard.begins or 0)
        unread = [at for at in shard.arrivals[first:] if at >= (origin or kept) and at >= kept]
        for part in parts:
            late = [at for at in unread if part.since <= at < part.until]
            if late:
                raise Violation(
                    "I1",
                    f"a backfill takes {part.since} to {part.until} for complete, and a record of {shard.key} from {late[0]} is unread",
                    shard.key.shard_id,
                )
