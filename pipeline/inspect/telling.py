"""Parts of the sentences about an observation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.shards.partition import partition_of

_NAMED: Final = 5


def first_names(names: Sequence[str]) -> str:
    """A list of the first few names. Lease keys are shown as the names of their shards."""
    rest = len(names) - _NAMED
    return ", ".join(map(partition_of, names[:_NAMED])) + (f" and {rest:,} more" if rest > 0 else "")


def in_words(period: timedelta) -> str:
    seconds = period.total_seconds()
    if seconds >= 2 * 86_400:
        return f"{seconds / 86_400:.0f} days"
    if seconds >= 2 * 3_600:
        return f"{seconds / 3_600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 300 else f"{seconds:.0f} s"
