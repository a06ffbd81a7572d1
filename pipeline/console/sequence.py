"""Times that are read from Kinesis's sequence numbers.

AWS doesn't document the layout, but all numbers of the present form show it (hex digits from the left):

    2 | second of the shard's creation: 9 | shard: 1 | ordinal: 16 | 2 | second of arrival: 9 | shard: 8 | 2

A number of another form, or one with an absurd time, gives no time. These times are only used for pictures.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_SECONDS: Final = (1 << 36) - 1
# Kinesis began in November 2013.
_OLDEST: Final = 1_383_264_000
_NEWEST: Final = 253_402_300_799


def shard_created(sequence: int) -> datetime | None:
    """The time at which the shard was created that this sequence number belongs to."""
    return _time(sequence, sequence >> 148 & _SECONDS)


def arrived(sequence: int) -> datetime | None:
    """The time at which the record with this sequence number arrived, in whole seconds."""
    return _time(sequence, sequence >> 36 & _SECONDS)


def _time(sequence: int, second: int) -> datetime | None:
    has_form = sequence >> 184 == 2 and sequence & 0xF == 2
    return datetime.fromtimestamp(second, UTC) if has_form and _OLDEST <= second <= _NEWEST else None
