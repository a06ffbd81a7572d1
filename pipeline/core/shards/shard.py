"""A shard as ListShards shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_HASH_KEY = 2**128 - 1


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """A range of hash keys. Both ends belong to it."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= MAX_HASH_KEY:
            raise ValueError(
                f"a hash range lies within 0..2^128-1 and its end isn't before its start: {self.start}..{self.end}"
            )


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The sequence numbers that records of a shard may have. Both ends belong to it."""

    first: int
    last: int | None = None
    """The greatest number that a record of the shard may have. None: the shard is open, or its end isn't known."""

    def has(self, number: int) -> bool:
        return self.first <= number and (self.last is None or number <= self.last)

    def __str__(self) -> str:
        return (
            f"all numbers from {self.first} on"
            if self.last is None
            else f"the numbers from {self.first} to {self.last}"
        )


@dataclass(frozen=True, slots=True)
class Shard:
    shard_id: str
    parents: tuple[str, ...] = ()
    """Ids of the shard that was split, or of the two that were merged. Kinesis may have forgotten these shards."""
    hash_range: HashRange | None = None
    closed: bool = False
    """True once the listing shows an ending sequence number: no new record can come."""
    numbers: NumberRange | None = None
    """The sequence numbers that the shard's records may have; None where the listing doesn't tell them."""
    is_last: bool = False
    """Whether the shard is closed and no shard goes on after it, because the stream was switched off."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child as GetRecords names it on the last page of a closed shard."""

    shard_id: str
    parents: tuple[str, ...]
    hash_range: HashRange | None = None


def shards_of_children(parent: str, children: Sequence[Child]) -> tuple[Shard, ...] | None:
    """The children of an ended shard as a listing would show them. None where the shard's last page doesn't name all
    parents and the hash keys of each: a row that lacked a parent would let the child of a merge start early."""
    # A split has two children or more, each of this parent alone. A single child comes from a merge, which has two.
    parents = 1 if len(children) > 1 else 2
    are_whole = all(
        parent in child.parents and len(set(child.parents)) == parents and child.hash_range is not None
        for child in children
    )
    if not are_whole:
        return None
    return tuple(Shard(child.shard_id, child.parents, child.hash_range) for child in children)
