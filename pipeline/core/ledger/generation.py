"""The generation of a shard: a number that counts how often a commit of a typed table has decided anew about rows of
the shard.

A redrive parses rows of the quarantine table again, and a replacement parses a range of the lake table again. Both move
no position of a shard in the lake table. So each shard of which rows were ever decided about anew has a second position
in the typed table and in the quarantine table, under a name of its own: its generation. By it, of two commits that
decide about rows of the same shard the second one is refused, and the quarantine table knows which of these commits it
has carried out.
"""

from __future__ import annotations

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey

_SUFFIX = "#redrive"
"""Kinesis allows no such character in the id of a shard."""


def chain_of(key: ShardKey) -> ShardKey:
    return ShardKey(key.stream, f"{key.shard_id}{_SUFFIX}")


def with_chains(shard_id: str) -> frozenset[str]:
    """The ids under which a typed table counts ranges of this shard."""
    return frozenset({shard_id, f"{shard_id}{_SUFFIX}"})


def is_chain(key: ShardKey) -> bool:
    return key.shard_id.endswith(_SUFFIX)


def shard_of(chain: ShardKey) -> ShardKey:
    """The shard that a chain belongs to."""
    return ShardKey(chain.stream, chain.shard_id.removesuffix(_SUFFIX))


def next_link(position: Position | None) -> Position:
    """The position after one more redrive or replacement."""
    # Numbers from 1 on, so that a generation is compared and committed as a position is.
    return Position(1 if position is None or position.sequence is None else position.sequence + 1)
