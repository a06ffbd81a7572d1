"""The port of the lineage table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.filter import RangeFilter
    from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
    from headrace.pipeline.core.ledger.recording import Recorded


class LineageTable(Protocol):
    """The ledgers of all commits of the lake table, as a table of its own: they stay when snapshots of the lake table
    expire.

    The table holds the ledger of main's snapshots, from the first to the recorded one, and of no others. After a
    rollback of the lake table, the next `record` also removes the ledgers of the snapshots that main no longer leads
    to.
    """

    def recorded(self) -> Recorded:
        """Up to which snapshot of the lake table the table has ledgers. Only the lineage table is read.
        `Recorded()` where there is no such table yet.
        """
        ...

    def record(self, *, at_most: timedelta | None = None) -> Recorded:
        """Bring the lineage table up to the newest snapshot of the lake table, and return what is recorded now. A call
        that reaches `at_most` ends early with a part recorded, after at least a second's work; the next call goes on
        from there.

        Makes the lineage table where it doesn't exist. Any number of processes may call this at the same time, and a
        process may die at any point of the call: each ledger is in the lineage table once. The call reads the snapshots
        from the head of the lake table down to the recorded one, so the recorded snapshot has to stay when others
        expire. Raises Transient or Unreachable where the catalog doesn't answer; the next call goes on.
        """
        ...

    def entries(self, asked: RangeFilter = ...) -> Iterator[LedgerEntry | Lost]:
        """The ledgers of main's snapshots, oldest first: those in the table, then those that aren't recorded yet.
        Among them, the parts of the history whose ledger was lost before it was recorded. `asked`: a filter; only
        ledgers and ranges that it lets through are returned, and only about that much is in memory.
        """
        ...
