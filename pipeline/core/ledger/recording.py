"""What the lineage table lacks of the lake table's history, and which ledgers it has too many after a rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.pipeline.errors import ChainBroken


@dataclass(frozen=True, slots=True)
class Recorded:
    """Up to which snapshot of the lake table the lineage table has recorded the ledgers."""

    snapshot: int | None = None
    """The newest snapshot of the lake table whose ledger is in the lineage table, together with the ledgers of all its
    ancestors. It may be a snapshot of another engine, which has no ledger. None where nothing is recorded.
    """
    # A rollback may have taken this snapshot off main since. So another snapshot counts as recorded only if it is an
    # ancestor of this one: its lower sequence number alone doesn't show that.
    sequence: int = 0
    """The Iceberg sequence number of that snapshot; 0 where `snapshot` is None."""
    ranges: int = 0
    """The ranges in the lineage table."""
    snapshots: int = 0
    """The snapshots of Headrace whose ledgers are in the lineage table."""
    gaps: int = 0
    """The parts of the lake table's history whose ledger is missing."""


@dataclass(frozen=True, slots=True)
class OnMain:
    """A snapshot of the lake table's main branch."""

    snapshot: int
    parent: int | None
    sequence: int


S = TypeVar("S", bound=OnMain)


@dataclass(frozen=True, slots=True)
class Tail(Generic[S]):
    """The change after which the lineage table is the ledger of main again: snapshots to record, and ledgers to
    remove.
    """

    new: tuple[S, ...]
    """Snapshots of main that aren't recorded, oldest first."""
    cut: int | None = None
    """After a rollback: rows of snapshots with a higher sequence number than this are to be removed, because main
    doesn't lead to these snapshots. None: no row is to be removed."""
    broken: bool = False
    """Whether the history below the oldest of `new` can't be read any more: the snapshots down to the recorded one, or
    down to the table's first, were expired before their ledgers were recorded."""


def tail_of(main: Iterable[S], recorded: Recorded, with_rows: Callable[[], Mapping[int, int]]) -> Tail[S]:
    """Compare the snapshots of main with those that the lineage table has recorded.

    `main`: main's snapshots, newest first, read as far as needed; reading raises ChainBroken where the history is
    lost. `with_rows`: returns the snapshots that have rows in the lineage table, with their sequence numbers;
    called only after a rollback.
    """
    new: list[S] = []
    ends: Mapping[int, int] = {} if recorded.snapshot is None else {recorded.snapshot: recorded.sequence}
    rolled_back = False

    def tail(cut: int, *, broken: bool = False) -> Tail[S]:
        return Tail(tuple(reversed(new)), cut if rolled_back else None, broken)

    try:
        for ancestor in main:
            if not rolled_back and ancestor.sequence < recorded.sequence:
                # Sequence numbers fall on the way back: main doesn't lead to the recorded snapshot any more. All
                # recorded snapshots were one line, so the first of them on main is where the two histories part.
                rolled_back, ends = True, with_rows()
            if ancestor.snapshot in ends:
                return tail(ancestor.sequence)
            new.append(ancestor)
            if ancestor.parent is not None and ancestor.parent in ends:
                # That snapshot itself may have expired: its child still names it.
                return tail(ends[ancestor.parent])
    except ChainBroken:
        # All snapshots of main from the oldest known one on were seen, and none of them has a row.
        return tail(new[-1].sequence - 1 if new else 0, broken=True)
    # Main's first snapshot was reached: nothing that is recorded is part of main.
    rolled_back = recorded.snapshot is not None
    return tail(0)
