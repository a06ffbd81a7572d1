"""The judge of SHARD_END in a row (I52): the rows of the children that the end names have been made before, so that a run that dies in between leaves no
child without a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


def judge_children(world: World, shard: ShardTruth | None, row: Lease, by: Process) -> None:
    """The row of the shard has just been ended by a run, because the lake table has the shard's end."""
    # A child that no listing shows gets its row from the leader, and so do the children of an end that tells nothing of them.
    is_unsure = world.plan.mix.late_listing or world.plan.of_a_table or world.source.denied
    if shard is None or not shard.ended or is_unsure:
        return
    for name in shard.named:
        child = ShardKey(shard.key.stream, name)
        known = world.leases.made.keys() | world.leases.rows.keys()
        if world.key_of(child) not in known and not world.is_unlisted(child):
            raise Violation("I52", f"{by} ends the row {row.key} before its child {name} has one", row.key)
