"""The positions by which a quarantine table follows what redrives have decided.

A redrive parses rows of the quarantine table again. It moves no position of a shard in the lake table. So each shard that was ever redriven
has a second position in the typed table and in the quarantine table, under a name of its own: it counts the redrives. By it, two redrives
that take the same rows exclude each other, and the quarantine table knows which redrives it has carried out.
"""

from __future__ import annotations

from pipeline.core.position import Position
from pipeline.core.stream import ShardKey

_SUFFIX = "#redrive"
"""Kinesis allows no such character in the id of a shard."""


def chain_of(key: ShardKey) -> ShardKey:
    return ShardKey(key.stream, f"{key.shard_id}{_SUFFIX}")


def is_chain(key: ShardKey) -> bool:
    return key.shard_id.endswith(_SUFFIX)


def shard_of(chain: ShardKey) -> ShardKey:
    """The shard that a chain belongs to."""
    return ShardKey(chain.stream, chain.shard_id.removesuffix(_SUFFIX))


def next_link(at: Position | None) -> Position:
    """The position after one more redrive."""
    return Position(1 if at is None or at.sequence is None else at.sequence + 1)
