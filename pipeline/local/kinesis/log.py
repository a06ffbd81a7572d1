"""A shard's records, kept as the JSON of GetRecords, so that a page is made by joining bytes."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

MAX_PAGE_BYTES = 10 * 1024 * 1024
# Trimmed records are removed from memory in groups of at least this many, because the rest has to move to the front.
_COMPACT_FROM = 4096


class RecordLog:
    """A shard's records by position. Position 0 is the first record that the shard ever took, even after that
    record was trimmed.
    """

    __slots__ = ("_arrivals", "_gone", "_records", "_sizes", "first")

    def __init__(self) -> None:
        """Make an empty log."""
        # The oldest position that may still be read: those before it have left the retention.
        self.first = 0
        # Positions below it were dropped from memory.
        self._gone = 0
        self._records: list[bytes] = []
        # Milliseconds since 1970, which never go back, so that a bisection finds a moment.
        self._arrivals = array("q")
        # A running total of the records' sizes, so that a bisection finds where a page is full.
        self._sizes = array("Q")

    @property
    def end(self) -> int:
        """Give the position that the next record will take."""
        return self._gone + len(self._records)

    @property
    def last_arrival(self) -> int:
        """Give the newest record's arrival in ms; 0 if there was no record yet."""
        return self._arrivals[-1] if self._arrivals else 0

    def append(self, record: bytes, arrival: int, size: int) -> None:
        """Take one record. Arrival times never go back, even if the clock does."""
        self._records.append(record)
        self._arrivals.append(arrival)
        self._sizes.append(size + (self._sizes[-1] if self._sizes else 0))

    def arrival(self, position: int) -> int:
        """Give a kept record's arrival in ms."""
        return self._arrivals[position - self._gone]

    def position_from(self, arrival: int) -> int:
        """Give the first readable position that arrived at a moment or later."""
        return max(self.first, self._gone + bisect_left(self._arrivals, arrival))

    def page(self, start: int, limit: int, *, most_bytes: int = MAX_PAGE_BYTES) -> tuple[bytes, int, int]:
        """Give a page as JSON list, the position after it and its size: at most `limit` records and `most_bytes`."""
        low = max(start, self.first) - self._gone
        high = min(low + limit, len(self._records))
        if low >= high:
            return b"[]", low + self._gone, 0
        before = self._sizes[low - 1] if low else 0
        # One record always fits: none is larger than a page.
        fitting = bisect_right(self._sizes, before + most_bytes, low, high)
        high = max(fitting, low + 1)
        return b"[%b]" % b",".join(self._records[low:high]), high + self._gone, self._sizes[high - 1] - before

    def trim(self, before: int) -> None:
        """Drop records that arrived before a moment (ms)."""
        cut = bisect_left(self._arrivals, before)
        self.first = max(self.first, self._gone + cut)
        # The rest moves to the front, which costs its length: it pays once the rest is the smaller half.
        if cut and (cut == len(self._records) or (cut > _COMPACT_FROM and cut > len(self._records) // 2)):
            self._drop(cut)

    def clear(self) -> None:
        """Drop all records."""
        self.first = self.end
        self._drop(len(self._records))

    def _drop(self, cut: int) -> None:
        total = self._sizes[cut - 1] if cut else 0
        del self._records[:cut], self._arrivals[:cut]
        self._sizes = array("Q", (size - total for size in self._sizes[cut:]))
        self._gone += cut
