"""A record as it is known to Kinesis, to KCL's workers and in Headrace's table: by shard, sequence number and
payload."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Record:
    """One record of the stream."""

    shard: str
    sequence: str
    payload: str

    @property
    def number(self) -> int:
        """The sequence number as a number, to compare it with others of the shard."""
        return int(self.sequence)

    def __str__(self) -> str:
        return f"{self.payload} of {self.shard} at {self.sequence}"
