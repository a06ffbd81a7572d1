"""How fast one reader calls GetRecords for one shard. Kinesis's limits for a shard hold for all its readers
together, so a reader keeps to a share.

    allowance   the reader's share of the two limits, of calls and of bytes. What a reader couldn't use, because another reader had
                used the whole limit meanwhile, it may use later, up to `_SAVED`.
    page        a page is asked for with at most the bytes of a second's share: after a page of 10 MiB, the largest that there is, Kinesis
                would refuse all readers for five seconds. A reader that has the shard for itself (share 1) takes whole
                pages.
    limits      no two calls follow each other faster than the limits themselves allow, whatever was saved: such a call would be
                refused, or would take what belongs to another reader.

Times are seconds of a monotonic clock, which the caller gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CALLS_A_SECOND = 5.0
"""GetRecords calls that Kinesis allows a shard."""
BYTES_A_SECOND = 2.0 * 1024 * 1024
"""Bytes of records that Kinesis gives from a shard. One page may have five times as many, and uses up five seconds."""
MOST_RECORDS = 10_000
"""The most records that one page has."""
MOST_BYTES = 10 * 1024 * 1024
"""The most bytes of records that one page has."""
PUT_BYTES_A_SECOND = 1.0 * 1024 * 1024
"""Bytes of records that Kinesis takes into a shard."""
_SAVED = 10.0
"""Seconds of allowance that a reader can save: twice the time for which a page of another reader can keep it
waiting."""
FIRST_PAGE_OF_A_WINDOW = 100
"""The records that the first page of a window asks for. After a first page of 10 MiB, Kinesis would refuse the runs'
calls for five seconds."""
_MOST_OF_A_WINDOW = 0.2
_LEAST_OF_A_WINDOW = 0.1
_ON_THE_WAY = 0.005
"""The seconds from the moment at which a call is sent to the one at which Kinesis counts its page."""


def window_share(live: float) -> float:
    """The share of a shard's limits with which a window reads the stream, beside runs that use the share `live`.
    It is what the runs leave, but at most a fifth, because other applications need the rest, and at least a
    tenth, so that a window ends even where runs take everything.
    """
    return min(_MOST_OF_A_WINDOW, max(_LEAST_OF_A_WINDOW, round(1 - live, 6)))


@dataclass(slots=True)
class Pace:
    """The pace at which one reader calls GetRecords for one shard."""

    share: float
    """The reader's part of the shard's limits, more than 0 and at most 1."""
    began: float
    _allowed: float = field(init=False)
    """When the allowance is enough for a call."""
    _free: float = field(init=False)
    """When the limits allow the next call, if this is the only reader."""
    _called: float = field(init=False)

    def __post_init__(self) -> None:
        self._allowed = self._free = self._called = self.began

    def wait(self, now: float) -> float:
        """Seconds until the next call may be made."""
        return max(0.0, self._allowed - now, self._free - now)

    def page(self, record: float) -> int:
        """How many records the next call may ask for, if a record has `record` bytes."""
        # Nothing is known of the size of records before the first page.
        if self.share >= 1 or record <= 0:
            return MOST_RECORDS
        return min(max(1, int(self.share * BYTES_A_SECOND / record)), MOST_RECORDS)

    def note_call(self, now: float) -> None:
        """Note that a call is made now. The allowance is reduced only by `note_page`, because Kinesis may refuse
        the call.
        """
        self._called = now
        self._free = now + 1 / CALLS_A_SECOND

    def note_page(self, size: int) -> None:
        """Note that the answer to the last call had `size` bytes."""
        # A page uses up a call, and its bytes: the one of the two limits that takes longer counts.
        needed = max(1 / CALLS_A_SECOND, size / BYTES_A_SECOND)
        if size:
            self._free = max(self._free, self._called + size / BYTES_A_SECOND + _ON_THE_WAY)
        # Time in which other readers kept this one waiting counts as saved, but no more of it than `_SAVED`.
        self._allowed = max(self._allowed, self._called - _SAVED) + needed / self.share
