"""Does a listing show every shard from which records can still come?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard


def is_whole(listed: Iterable[Shard]) -> bool:
    """Whether a listing hides no shard: a late listing leaves shards out, and with them hash keys; where shards have no hash
    keys, it leaves out the shard that goes on after a closed one."""
    shards = tuple(listed)
    if any(shard.hash_range is not None for shard in shards):
        return cover_all([shard.hash_range for shard in shards if not shard.closed])
    return bool(shards) and not dead_ends(shards)


def dead_ends(shards: Iterable[Shard]) -> tuple[str, ...]:
    """The closed shards after which no listed shard goes on, although one has to."""
    shards = tuple(shards)
    parents = {parent for shard in shards for parent in shard.parents}
    return tuple(
        shard.shard_id
        for shard in shards
        if shard.closed and not shard.is_last and shard.shard_id not in parents
    )


def cover_all(ranges: Sequence[HashRange | None]) -> bool:
    """Whether these shards have all hash keys. False too where the hash keys of one aren't known."""
    known_ranges = [r for r in ranges if r is not None]
    covered = 0
    for keys in sorted(known_ranges):
        if keys.start > covered:
            return False
        covered = max(covered, keys.end + 1)
    return covered > MAX_HASH_KEY and len(known_ranges) == len(ranges)
