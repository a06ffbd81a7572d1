"""Which shards of a table of the latest rows wait for an earlier life of their stream. Pure functions on values.

A stream that is deleted and created again begins a later life, whose records count as later. The table doesn't remember
which keys were deleted: rows of an earlier life that came after those of a later one could bring a deleted row back. So
nothing of a later life is parsed while the lake table has rows of an earlier one that the table lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.typed.values import Wishes


def by_lives(wishes: Wishes) -> Wishes:
    """The wishes of a table that takes nothing of a later life before it has all of the earlier ones."""
    wishes = replace(wishes, life_by_life=True)
    wishes = replace(wishes, held_back=waits_for_former_lives(wishes, ()))
    return replace(wishes, notes=(*wishes.notes, *_waits_without_news(wishes)))


def _waits_without_news(wishes: Wishes) -> Iterator[str]:
    """Which later lives wait for an earlier one that no wave can take anything of now."""
    lives = sorted({key.stream for key in wishes.held_back})
    moving = {lack.key.stream for lack in wishes.wanted if lack.is_due and lack.key not in wishes.held_back}
    for life in lives:
        if any(stream.arn == life.arn for stream in moving):
            continue
        first = min(key for key in wishes.waiting if key.stream.arn == life.arn)
        shards = sum(key.stream == life for key in wishes.held_back)
        yield (
            f"{life.name}: {counted(shards, 'shard')} of the life that began at {life.created_text} "
            f"{'waits' if shards == 1 else 'wait'} for the life that began at {first.stream.created_text}, whose shard "
            f"{first.shard_id} waits for the end of its parent. Nothing was lost. Nothing of the later life is parsed until "
            "that end is in the lake table again; where it won't be, give the target another `table`, into which all "
            "records of the lake table are parsed"
        )


def waits_for_former_lives(wishes: Wishes, found: Iterable[ShardKey]) -> frozenset[ShardKey]:
    """The shards of which a wave takes nothing. `found`: those of which a survey has found rows."""
    if not wishes.life_by_life:
        return frozenset()
    found = frozenset(found)
    due = {lack.key for lack in wishes.wanted if lack.upto is not None}
    earliest: dict[str, int] = {}
    for key in (*due, *wishes.waiting, *found):
        arn, epoch = key.stream.arn, key.stream.epoch
        earliest[arn] = min(earliest.get(arn, epoch), epoch)
    shards = found.union(lack.key for lack in wishes.wanted)
    return frozenset(
        key for key in shards if key.stream.epoch > earliest.get(key.stream.arn, key.stream.epoch)
    )
