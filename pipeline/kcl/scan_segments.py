"""Into how many parts KCL's workers split a scan of the lease table."""

from __future__ import annotations

from math import ceil

_BYTES_PER_SEGMENT = 0.2  # GiB
_MOST_SEGMENTS = 32
_SEGMENTS_UNKNOWN = 10
"""Where the table's size could never be asked."""


def scan_segments(table_bytes: int | None) -> int:
    """Into how many parts a scan of the lease table is split; None: the size isn't known."""
    if table_bytes is None:
        return _SEGMENTS_UNKNOWN
    return min(max(ceil(table_bytes / 1024**3 / _BYTES_PER_SEGMENT), 1), _MOST_SEGMENTS)
