"""KCL's optional ParentsFirst shard prioritization: a shard comes after its unfinished ancestors, and shards below
a given depth are left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.pipeline.errors import BadSetting, WrongShape


def depths(parents: Mapping[str, Collection[str]], done: Collection[str] = ()) -> dict[str, int]:
    """The depth of each unfinished shard. Finished and unknown shards have depth 0.

    `parents` has a key for each shard that the worker holds. A loop, not a recursion: chains can be long.
    """
    found: dict[str, int] = {}
    entered: set[str] = set()
    todo = [shard_id for shard_id in sorted(parents, reverse=True) if shard_id not in done]
    while todo:
        each = todo[-1]
        if each in found:
            todo.pop()
            continue
        above = [p for p in parents[each] if p in parents and p not in done]
        missing = [p for p in above if p not in found]
        if not missing:
            found[todo.pop()] = 1 + max((found[p] for p in above), default=0)
            continue
        if each in entered:
            raise WrongShape(f"{each} is its own ancestor: the parents in the lease table make no sense")
        entered.add(each)
        todo.extend(missing)
    return found


def prioritize(
    parents: Mapping[str, Collection[str]], done: Collection[str] = (), *, max_depth: int
) -> tuple[str, ...]:
    """The unfinished shards by depth, then by id, down to `max_depth`."""
    if max_depth <= 0:
        raise BadSetting(
            f"a depth of {max_depth} would leave out every shard: nothing was ordered; name 1 or more"
        )
    found = depths(parents, done)
    return tuple(sorted((s for s, depth in found.items() if depth <= max_depth), key=lambda s: (found[s], s)))
