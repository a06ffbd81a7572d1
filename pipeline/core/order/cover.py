"""Checks whether a list of shards shows every shard from which records can still come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard


def is_whole(listed: Iterable[Shard]) -> bool:
    """Whether a list of shards hides no shard. ListShards may lag behind and leave shards out, and their hash
    keys are missing then; where shards have no hash keys, the shard that follows a closed one is missing.
    """
    shards = tuple(listed)
    if any(shard.hash_range is not None for shard in shards):
        return cover_all([shard.hash_range for shard in shards if not shard.closed])
    return bool(shards) and not dead_ends(shards)


def dead_ends(shards: Iterable[Shard]) -> tuple[str, ...]:
    """The closed shards that should have a child, and of which the list shows none."""
    shards = tuple(shards)
    parents = {parent for shard in shards for parent in shard.parents}
    return tuple(
        shard.shard_id
        for shard in shards
        if shard.closed and not shard.is_last and shard.shard_id not in parents
    )


def cover_all(ranges: Sequence[HashRange | None]) -> bool:
    """Whether these ranges together have all hash keys. False too where one of them isn't known."""
    known_ranges = [r for r in ranges if r is not None]
    covered = 0
    for keys in sorted(known_ranges):
        if keys.start > covered:
            return False
        covered = max(covered, keys.end + 1)
    return covered > MAX_HASH_KEY and len(known_ranges) == len(ranges)
