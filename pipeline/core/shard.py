"""A shard as ListShards tells of it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_HASH_KEY = 2**128 - 1


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """An inclusive range of hash keys."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= MAX_HASH_KEY:
            raise ValueError(f"a hash range lies within 0..2^128-1 and grows, not {self.start}..{self.end}")


@dataclass(frozen=True, slots=True)
class Shard:
    shard_id: str
    parents: tuple[str, ...] = ()
    """Ids of the one shard it was split from or the two it was merged from; they may be gone."""
    hash_range: HashRange | None = None
    closed: bool = False
    """True once the listing shows an ending sequence number: no new record can come."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child as the last page of a closed shard names it."""

    shard_id: str
    parents: tuple[str, ...]
    hash_range: HashRange | None = None
