"""Which shards of a table of the latest rows wait for an earlier life of their stream. Pure functions on values.

A stream that is deleted and created again begins a later life, whose records count as later. The table doesn't
remember which keys were deleted: rows of an earlier life that came after those of a later one could bring a
deleted row back. So nothing of a later life is parsed while the lake table has rows of an earlier life that the
table of the latest rows lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.values import Wishes


def by_lives(wishes: Wishes) -> Wishes:
    """The rows that a table wants, without those of a later life of a stream as long as rows of an earlier life are left."""
    wishes = replace(wishes, life_by_life=True)
    return replace(wishes, held_back=waits_for_former_lives(wishes, ()))


def waits_for_former_lives(wishes: Wishes, found: Iterable[ShardKey]) -> frozenset[ShardKey]:
    """The shards of which a wave takes nothing, because rows of an earlier life of their stream are left.
    `found`: the shards of which a survey has found rows.
    """
    if not wishes.life_by_life:
        return frozenset()
    found = frozenset(found)
    # A shard without a record brings nothing itself. Nothing more lands of a former life, so that waiting for it would be for ever.
    due = {lack.key for lack in wishes.wanted if lack.upto is not None and lack.is_due}
    earliest: dict[str, int] = {}
    for key in (*due, *wishes.waiting, *found):
        arn, epoch = key.stream.arn, key.stream.epoch
        earliest[arn] = min(earliest.get(arn, epoch), epoch)
    shards = found.union(lack.key for lack in wishes.wanted)
    return frozenset(
        key for key in shards if key.stream.epoch > earliest.get(key.stream.arn, key.stream.epoch)
    )
