"""The generation of a shard, which is the number of reshards before it. Shards sort by it so that children come
after their parents. Pure functions on values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.pipeline.core.order.parents import parents_first


def generations(shards: Iterable[str], parents: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Shard -> its generation: 0 without a parent among the shards, else one more than that of its youngest parent."""
    numbers: dict[str, int] = {}
    for shard_id in parents_first(shards, parents):
        # Parents that contradict each other may lead in a circle: a parent that has no number yet doesn't count.
        above = [numbers[parent] for parent in parents.get(shard_id, frozenset()) if parent in numbers]
        numbers[shard_id] = max(above, default=-1) + 1
    return numbers
