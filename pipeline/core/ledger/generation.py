"""The generation of a shard: a number that counts how often a commit of a typed table has decided anew about rows of
the shard.

A redrive parses rows of the quarantine table again, and a replacement parses a range of the lake table again.
Both move no position of a shard in the lake table. So each shard of which rows were ever decided about anew has a
second position in the typed table and in the quarantine table, under a name of its own: its generation. So if two
commits decide about rows of the same shard at once, the second one is refused; and the quarantine table knows
which of these commits it has carried out.
"""

from __future__ import annotations

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey

_SUFFIX = "#redrive"
"""Kinesis allows no such character in the id of a shard."""


def chain_of(key: ShardKey) -> ShardKey:
    return ShardKey(key.stream, f"{key.shard_id}{_SUFFIX}")


def with_chains(shard_id: str) -> frozenset[str]:
    """The ids under which a typed table keeps positions for this shard: the shard's own, and that of its generation."""
    return frozenset({shard_id, f"{shard_id}{_SUFFIX}"})


def is_chain(key: ShardKey) -> bool:
    return key.shard_id.endswith(_SUFFIX)


def shard_of(chain: ShardKey) -> ShardKey:
    """The key of the shard to which a position belongs, be it the shard's own position or its generation."""
    return ShardKey(chain.stream, chain.shard_id.removesuffix(_SUFFIX))


def next_link(position: Position | None) -> Position:
    """The next generation: the position after one more redrive or replacement."""
    # Numbers from 1 on, so that a generation is compared and committed as a position is.
    return Position(1 if position is None or position.sequence is None else position.sequence + 1)
