"""The judges of what leaves the lake table, or never comes into it: days that a retention drops, and ranges that a KCL worker has read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.ledger import Range
from tests.memory.aggregates import numbers_of
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import ShardTruth, Violation, number_of

if TYPE_CHECKING:
    from tests.simulation.world import World


def judge_drop(world: World, made: Snapshot, by: str) -> None:
    """A retention removes days that are over, and only rows that each typed table has decided about (I38)."""
    # A host's clock may be minutes ahead.
    today = f"{world.clock.now() + timedelta(minutes=10):%Y-%m-%d}"
    for file in world.table.files_at(made.parent):
        if file.path not in made.replaced:
            continue
        if not world.plan.midnight or file.partition >= today:
            raise Violation("I35", f"{by} removes {file.path} of {file.partition}, a day that isn't over")
        for row in world.stage.rows[file.path]:
            world.typed.require_told(row[0], row[1], by)
            world.table.dropped.update((row[0], number) for number in numbers_of(row))
    world.note(by, f"snapshot {made.id} drops {len(made.replaced)} files")


def judge_foreign(world: World, shard: ShardTruth, each: Range, stop: int) -> None:
    """A range counts as read by a KCL worker only as far as one has processed records."""
    read = world.foreign.get(each.key, -1)
    if not world.plan.foreign or number_of(each.upto.token) > read:
        raise Violation(
            "I1",
            f"{each.key} counts as read by KCL up to {each.upto}, and KCL has read up to {read}",
            each.key.shard_id,
        )
    shard.left_out.update(shard.sequences[shard.read : stop])
