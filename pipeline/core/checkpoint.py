"""A lease row's checkpoint: one totally ordered type from AT_TIMESTAMP to SHARD_END."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import WrongShape

_SENTINELS = {"AT_TIMESTAMP": -3, "TRIM_HORIZON": -2, "LATEST": -1}
_SHARD_END = "SHARD_END"
_LONGEST = 129
"""Digits, by Kinesis's API. Numbers of thousands of them would stop whoever compares them."""


@dataclass(frozen=True, slots=True, eq=True)
class Checkpoint:
    """A sequence number (or one of KCL's four words) and the number of the user record in it.

    Order is by integer value, never by text. Equality is by text, as KCL has it.
    """

    sequence: str
    sub: int = 0

    def __post_init__(self) -> None:
        digits = self.sequence.isascii() and self.sequence.isdigit()
        if digits and len(self.sequence) > _LONGEST:
            raise WrongShape(f"a sequence number of {len(self.sequence)} digits isn't one of Kinesis")
        if not digits and self.sequence not in _SENTINELS and self.sequence != _SHARD_END:
            raise WrongShape(f"{self.sequence!r} is neither a sequence number nor one of KCL's words")

    @property
    def is_end(self) -> bool:
        return self.sequence == _SHARD_END

    @property
    def is_digits(self) -> bool:
        return self.sequence not in _SENTINELS and not self.is_end

    def __lt__(self, other: Checkpoint) -> bool:
        return self._order() < other._order()

    # Not by functools.total_ordering: it would ask `==`, and of 7 and 007 each would be greater than the other.
    def __le__(self, other: Checkpoint) -> bool:
        return self._order() <= other._order()

    def __gt__(self, other: Checkpoint) -> bool:
        return self._order() > other._order()

    def __ge__(self, other: Checkpoint) -> bool:
        return self._order() >= other._order()

    def _order(self) -> tuple[int, int, int]:
        if self.is_end:
            return (1, 0, 0)
        return (0, int(self.sequence) if self.is_digits else _SENTINELS[self.sequence], self.sub)

    def __str__(self) -> str:
        return f"{self.sequence}/{self.sub}" if self.sub else self.sequence


SHARD_END = Checkpoint(_SHARD_END)
TRIM_HORIZON = Checkpoint("TRIM_HORIZON")
LATEST = Checkpoint("LATEST")
AT_TIMESTAMP = Checkpoint("AT_TIMESTAMP")
