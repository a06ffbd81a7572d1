"""How many values one payload may make. Some formats have values that take a byte or less, and a column of Python's or
Arrow's needs hundreds of bytes for each: a small payload could fill the memory of its task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BYTES_AT_ONCE = 1024 * 1024
"""Bytes of payloads that are decoded at once."""

Count = Callable[[bytes, int], int]
"""The number of values that a payload makes. It raises TooManyValues above the given number, and makes none of the
values."""


class TooManyValues(Exception):
    pass


def too_many(most: int) -> str:
    """The reason for the quarantine table that a payload makes more than `most` values."""
    return f"the payload makes more than {most} values (most_values)"


@dataclass(frozen=True, slots=True)
class ValueLimit:
    most: int
    a_byte: float
    """The most values that a byte of any payload can make. The values of an empty payload, which its schema gives, come
    in addition."""
    count: Count

    def share(self, content: bytes) -> float:
        """The part that this payload takes of the values and bytes which may be decoded at once. Raises
        TooManyValues.
        """
        values: float = self.a_byte * len(content)
        # Nearly all payloads pass by this one multiplication. Only the few that could be too many
        # are walked through byte by byte.
        if values > self.most:
            values = self.count(content, self.most)
        return max(values / self.most, len(content) / BYTES_AT_ONCE)


@dataclass(slots=True)
class ValuesLeft:
    """How many values a payload may still make."""

    values: int

    def take(self, values: int) -> None:
        self.values -= values
        if self.values < 0:
            raise TooManyValues
