"""The checkpoint of a lease row. All checkpoints have one order, from AT_TIMESTAMP up to SHARD_END."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.errors import WrongShape

_SENTINELS = {"AT_TIMESTAMP": -3, "TRIM_HORIZON": -2, "LATEST": -1}
"""The words that come before every sequence number, in KCL's order."""
_SHARD_END = "SHARD_END"
_MAX_DIGITS = 129
"""Kinesis's API allows no longer sequence number. Python refuses to convert a text of more than 4,300 digits to a
number, so a longer one in a row would be an error at each comparison."""


@dataclass(frozen=True, slots=True, eq=True)
class Checkpoint:
    """A sequence number, or one of KCL's four words, and the sub-sequence number of a user record in that record.

    Checkpoints are ordered by integer value, never by text. They are equal where their texts are equal, as in KCL.
    """

    sequence: str
    sub: int = 0

    def __post_init__(self) -> None:
        # `isdigit` alone also takes digits of other scripts, which Kinesis never gives.
        digits = self.sequence.isascii() and self.sequence.isdigit()
        if digits and len(self.sequence) > _MAX_DIGITS:
            raise WrongShape(
                f"a sequence number of {len(self.sequence)} digits can't be Kinesis's, which have at most {_MAX_DIGITS}"
            )
        if not digits and self.sequence not in _SENTINELS and self.sequence != _SHARD_END:
            raise WrongShape(f"{self.sequence!r} is neither a sequence number nor one of KCL's words")

    @property
    def is_end(self) -> bool:
        return self.sequence == _SHARD_END

    @property
    def is_digits(self) -> bool:
        return self.sequence not in _SENTINELS and self.sequence != _SHARD_END

    def __lt__(self, other: Checkpoint) -> bool:
        return self._order() < other._order()

    # functools.total_ordering would derive these from `==`, and of "7" and "007" each would be greater than the other.
    def __le__(self, other: Checkpoint) -> bool:
        return self._order() <= other._order()

    def __gt__(self, other: Checkpoint) -> bool:
        return self._order() > other._order()

    def __ge__(self, other: Checkpoint) -> bool:
        return self._order() >= other._order()

    def _order(self) -> tuple[int, int, int]:
        sequence = self.sequence
        if sequence == _SHARD_END:
            return (1, 0, 0)
        word = _SENTINELS.get(sequence)
        # As numbers: as texts, a sequence number with fewer digits would sort behind one with more.
        return (0, int(sequence) if word is None else word, self.sub)

    def __str__(self) -> str:
        return f"{self.sequence}/{self.sub}" if self.sub else self.sequence


SHARD_END = Checkpoint(_SHARD_END)
TRIM_HORIZON = Checkpoint("TRIM_HORIZON")
LATEST = Checkpoint("LATEST")
AT_TIMESTAMP = Checkpoint("AT_TIMESTAMP")
