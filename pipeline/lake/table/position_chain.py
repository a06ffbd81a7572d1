"""The walk from the head of main to the newest snapshot that carries positions.

    head of main                                           first snapshot
      9 foreign -> 8 foreign -> 7 foreign -> 6 foreign -> 5 OURS -> 4 ...
      `---------- current metadata ------'   `-- expired: found in the metadata files
                                                 that the metadata log still names --'

"Ours" are snapshots that Headrace committed, and whose summaries have positions; "foreign" are those of other engines.
The tag `headrace` isn't used: after a rollback it is on a snapshot that main doesn't lead to. Pure functions on values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.pipeline.core.ledger.recording import OnMain
from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table.remedy import OF_THE_LAKE_TABLE, Remedy

POSITIONS = "headrace.positions"
STATE = "headrace.state"
"""Key of the pointer to a file with positions and ledger, where they are too large for the summary."""

_PICKED = "source-snapshot-id"
"""Key that other engines write into the summary of a cherry-pick, which brings the rows of another snapshot to main,
but not the positions in that snapshot's summary.
"""
_FIRST = 1
"""Sequence number of a table's first snapshot, the only one that has no parent even before any expiry."""


@dataclass(frozen=True, slots=True)
class Link(OnMain):
    """One snapshot in the walk, as a metadata file describes it."""

    at: int = 0
    """The snapshot's time: milliseconds since 1970."""
    summary: Mapping[str, str] = field(default_factory=dict)
    operation: str = ""
    """The snapshot's operation as Iceberg calls it; empty where nothing tells."""

    @property
    def ours(self) -> bool:
        return POSITIONS in self.summary or STATE in self.summary

    @property
    def picked(self) -> bool:
        return _PICKED in self.summary

    @property
    def source(self) -> str | None:
        """For a cherry-pick, the id of the snapshot whose rows it brought; else None."""
        return self.summary.get(_PICKED)


Known = Mapping[int, Link]


def ancestors(
    head: int | None, current: Known, older: Iterator[Known], remedy: Remedy = OF_THE_LAKE_TABLE
) -> Iterator[Link]:
    """Snapshots from the head to the table's first. `older` yields the snapshots of earlier metadata files, newest file
    first; a file is read only where a snapshot or a parent is missing.

    pyiceberg's expiry removes the parent id from the children of expired snapshots. So a snapshot without a parent is
    the table's first only if its sequence number is 1, or if an older metadata file doesn't have the snapshot yet (then
    the files reach back to before its commit, and show that it never had a parent).
    """
    known = dict(current)
    # The snapshots of the oldest metadata file that was read so far.
    oldest = current

    def read_older(snapshot: int) -> None:
        """Read one more metadata file, in search of this snapshot or its parent."""
        nonlocal oldest
        links = next(older, None)
        if links is None:
            raise _lost(snapshot, remedy)
        oldest = links
        for number, link in links.items():
            # Newer files are read first and may lack a parent that expiry has removed: an older file completes it.
            if number not in known or known[number].parent is None:
                known[number] = link

    current_id = head
    # Back from the head, and not over all known snapshots: one that was rolled back is known as well.
    while current_id is not None:
        while current_id not in known:
            read_older(current_id)
        yield known[current_id]
        # This snapshot has no parent, but isn't the first: read on until a file has the parent, or is from before its
        # commit.
        while (
            known[current_id].parent is None and known[current_id].sequence > _FIRST and current_id in oldest
        ):
            read_older(current_id)
        current_id = known[current_id].parent


def nearest_ours(
    head: int | None,
    current: Known,
    older: Iterator[Known],
    *,
    passed: list[Link] | None = None,
    remedy: Remedy = OF_THE_LAKE_TABLE,
) -> Link | None:
    """The snapshot whose positions are the table's; None where no snapshot of main has positions. `passed` gets the
    snapshots of other engines above it."""
    for link in ancestors(head, current, older, remedy):
        # Checked before `ours`: whatever its summary holds, a cherry-pick's positions may not be those of main.
        if link.picked:
            raise ChainBroken(
                f"snapshot {link.snapshot} of {remedy.table} is a cherry-pick: it may have brought rows without their positions. Nothing "
                f"is committed from now on, so that no row is there twice; {remedy.way}"
            )
        if link.ours:
            return link
        if passed is not None:
            passed.append(link)
    return None


def landed(
    head: int | None, current: Known, older: Iterator[Known], *, tries: Collection[int], since: int
) -> int | None:
    """The snapshot among `tries` that is an ancestor of main's head; None where none is. Snapshots that the
    metadata knows but main doesn't lead to were rolled back. `since`: the lowest sequence number among the tries,
    where the walk may end.
    """
    for link in ancestors(head, current, older):
        if link.snapshot in tries:
            return link.snapshot
        # Sequence numbers fall on the way back, so no older snapshot can be one of the tries.
        if link.sequence < since:
            return None
    return None


def _lost(snapshot: int, remedy: Remedy) -> ChainBroken:
    return ChainBroken(
        f"the history of {remedy.table} is broken at snapshot {snapshot}: neither the current metadata nor an older metadata "
        "file in its log names the snapshot's parent, so earlier positions can't be found. Nothing was "
        f"committed; {remedy.way}"
    )
