"""Do ranges of hash keys cover all hash keys that there are?"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange


def cover_all(ranges: Sequence[HashRange | None]) -> bool:
    """Whether these shards have all hash keys. False too where the hash keys of one aren't known."""
    known_ranges = [r for r in ranges if r is not None]
    covered = 0
    for keys in sorted(known_ranges):
        if keys.start > covered:
            return False
        covered = max(covered, keys.end + 1)
    return covered > MAX_HASH_KEY and len(known_ranges) == len(ranges)
