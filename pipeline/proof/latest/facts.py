"""What a proof has found out about the rows of a table of the latest rows."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class LatestCounts:
    """How many rows of a table of the latest rows are right, and how many are wrong, by kind of mistake."""

    keys: int = 0
    """Keys of which the table has a row."""
    doubled: int = 0
    """Rows of keys that have another row."""
    stale: int = 0
    """Rows of which a later record of their key has landed and wasn't set aside."""
    missing: int = 0
    """Keys without a row whose latest record deletes nothing."""
    first: tuple[str, ...] = ()
    """The numbers of the first records with which something is wrong."""

    def plus(self, more: LatestCounts) -> LatestCounts:
        return LatestCounts(
            self.keys + more.keys,
            self.doubled + more.doubled,
            self.stale + more.stale,
            self.missing + more.missing,
            (*self.first, *more.first)[:_MOST_NAMED],
        )


@dataclass(frozen=True, slots=True)
class LatestFacts:
    counts: LatestCounts
    unproved: str = ""
    """Why the rows weren't compared with the landed records; empty where they were."""
