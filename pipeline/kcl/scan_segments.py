"""The number of segments into which KCL's workers split a parallel scan of the lease table."""

from __future__ import annotations

from math import ceil

# KCL's numbers: its workers and Headrace's workers shall put the same load on the table.
# GiB.
_BYTES_PER_SEGMENT = 0.2
_MOST_SEGMENTS = 32
# The number of segments if DescribeTable has never returned the size of the table.
_SEGMENTS_UNKNOWN = 10


def scan_segments(table_bytes: int | None) -> int:
    """The number of segments. `table_bytes`: the size of the table; None if it isn't known."""
    if table_bytes is None:
        return _SEGMENTS_UNKNOWN
    return min(max(ceil(table_bytes / 1024**3 / _BYTES_PER_SEGMENT), 1), _MOST_SEGMENTS)
