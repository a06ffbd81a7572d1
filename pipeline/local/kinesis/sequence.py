"""Sequence numbers: 56 decimal digits, with the layout that can be seen in real ones.

     2 | shard created, s | shard | ordinal in the shard | 0 | arrival, s | shard | 2
    hex digits:        9      1              16            2       9         8     1

The second of the shard's creation leads, so every number of a child is above every number of its parents (a child's
second is at least one more). The ordinal comes next, so numbers grow within a shard; and it can be read back from a
number, so positions need no index. The shard at the end keeps numbers unique in the stream.
"""

from __future__ import annotations

_SHARD_AT = 4
_SECOND_AT = _SHARD_AT + 32
_ORDINAL_AT = _SECOND_AT + 36 + 8
_ORDINAL_MASK = (1 << 64) - 1
_SECOND_MASK = (1 << 36) - 1
_VERSION = 2
# A closed shard's ending number carries an ordinal that no record reaches.
END_ORDINAL = (1 << 63) - 1


def sequence_base(created: int, index: int) -> int:
    """Give the part of a shard's numbers that all of them share."""
    lead = (_VERSION << 36 | created) << 4 | index & 0xF
    return lead << _ORDINAL_AT + 64 | index << _SHARD_AT | _VERSION


def number_at(base: int, ordinal: int, second: int) -> int:
    """Give the number of a shard's n-th record (1 is the first; 0 is where the shard starts)."""
    return base + (ordinal << _ORDINAL_AT) + (second << _SECOND_AT)


def ordinal_of(base: int, sequence: int) -> int | None:
    """Read a number's ordinal back, or None where the number can't be of that shard."""
    ordinal = sequence >> _ORDINAL_AT & _ORDINAL_MASK
    second = sequence >> _SECOND_AT & _SECOND_MASK
    return ordinal if number_at(base, ordinal, second) == sequence and ordinal <= END_ORDINAL else None


def second_of(sequence: int) -> int:
    """Read the second of arrival back."""
    return sequence >> _SECOND_AT & _SECOND_MASK
