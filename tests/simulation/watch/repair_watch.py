"""The judge of repaired positions: do they agree with the rows of the table (I1)?"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import ShardTruth, Violation, number_of

if TYPE_CHECKING:
    from tests.simulation.watch.table_watch import WatchedTable
    from tests.simulation.world import World


def judge_repair(world: World, table: WatchedTable, made: Snapshot) -> None:
    """A repaired position must agree with the last landed row of its shard. A shard without a position is read
    from its beginning, unless Kinesis has forgotten it or it counts as ended because of its descendants."""
    landed: dict[ShardKey, int] = {}
    for file in table.files_at(made.parent):
        for key, sequence, *_ in world.stage.rows[file.path]:
            landed[key] = max(sequence, landed.get(key, 0))
    for key, shard in world.truth.shards.items():
        at = made.positions.shards.get(key)
        token = None if at is None else at.token
        last = landed.get(key)
        stands = world.is_unlisted(key) if at is None else at.ended or number_of(at.token) == last
        if last is not None and not stands and not was_recreated(world, shard):
            raise Violation(
                "I1", f"{key} was repaired to {at}, but its last row in the table is {last}", key.shard_id
            )
        vanished = shard.token is None and world.is_unlisted(key)
        if at is not None and at.ended and not (shard.ended or vanished or _had_ended(shard, at, last)):
            raise Violation("I1", f"{key} was repaired to END, but it hadn't ended", key.shard_id)
        over = at.ended if at is not None else _counts_as_end(world, shard, made)
        read = len(shard.sequences) if over else rows_up_to(world, shard, last or 0)
        if not over and last is None and at is not None and at.sequence is not None:
            read = _passed_without_rows(world, shard, at)
        shard.goes_back()
        shard.proofs = ()
        shard.token, shard.read = token, read


def _passed_without_rows(world: World, shard: ShardTruth, at: Position) -> int:
    """How many user records a position is behind which the table has no row of the shard: what KCL has read, and what a person gave up."""
    read = shard.read_up_to(number_of(at.token))
    first = max(shard.begins or 0, world.truth.first(shard, world.table.origins.get(shard.key.stream)))
    wanted = [n for n in shard.sequences[first:read] if n > world.foreign.get(shard.key, -1)]
    if lost := sorted(set(wanted) - shard.left_out):
        raise Violation(
            "I1",
            f"{shard.key} was repaired to {at}, but its record {lost[0]} isn't in the table, and nobody gave it up",
            shard.key.shard_id,
        )
    return read


def _had_ended(shard: ShardTruth, at: Position, last: int | None) -> bool:
    """Whether the table knew the shard's end before a person set it back, and lacks no row before that end: a snapshot that `main` has
    left still tells what Kinesis said after the last row."""
    was = shard.was
    return (
        was is not None and was[2] and number_of(was) == number_of(at.token) == (-1 if last is None else last)
    )


def _counts_as_end(world: World, shard: ShardTruth, made: Snapshot) -> bool:
    """Whether a shard without a position counts as ended: it had ended or never had a position, and a
    descendant has one."""
    return (shard.ended or shard.token is None) and world.truth.is_passed(shard, made.positions.shards)


def rows_up_to(world: World, shard: ShardTruth, number: int) -> int:
    """How many user records of the shard are in the table where this is its last row."""
    return shard.read_up_to(number) if world.plan.keeps else bisect_right(shard.sequences, number)


def was_recreated(world: World, shard: ShardTruth) -> bool:
    return not world.truth.lives(shard.key.stream)
