"""Random families of shards, made from a seed by splits and merges as Kinesis makes them."""

from random import Random

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.kcl.missing_leases import Listed


def a_tree(dice: Random, reshards: int) -> list[Listed]:
    """All shards of the stream. Those that are open cover all hash keys."""
    bounds = sorted({0, *(dice.randrange(1, MAX_HASH_KEY) for _ in range(dice.randrange(4)))})
    ends = [*(low - 1 for low in bounds[1:]), MAX_HASH_KEY]
    opened = [
        _shard(number, (), HashRange(low, high))
        for number, (low, high) in enumerate(zip(bounds, ends, strict=True))
    ]
    closed: list[Listed] = []
    for _ in range(reshards):
        number = len(opened) + len(closed)
        at = dice.randrange(len(opened))
        merges = len(opened) > 1 and dice.random() < 0.4
        gone = opened[max(at - 1, 0) : max(at - 1, 0) + 2] if merges else [opened[at]]
        place = opened.index(gone[0])
        opened[place : place + len(gone)] = _children(gone, number, dice)
        closed += [Listed(_closed(each.shard), each.starts) for each in gone]
    return closed + opened


def _children(gone: list[Listed], number: int, dice: Random) -> list[Listed]:
    parents = tuple(each.shard.shard_id for each in gone)
    ranges = [each.shard.hash_range for each in gone if each.shard.hash_range is not None]
    low, high = ranges[0].start, ranges[-1].end
    if len(gone) == 2 or low == high:
        return [_shard(number, parents, HashRange(low, high))]
    middle = dice.randrange(low, high)
    return [
        _shard(number, parents, HashRange(low, middle)),
        _shard(number + 1, parents, HashRange(middle + 1, high)),
    ]


def _shard(number: int, parents: tuple[str, ...], hash_range: HashRange) -> Listed:
    return Listed(Shard(f"shardId-{number:012}", parents, hash_range), 100 * number)


def _closed(shard: Shard) -> Shard:
    return Shard(shard.shard_id, shard.parents, shard.hash_range, closed=True)
