"""The walk from the head of main to the newest snapshot that carries positions.

    head of main                                                    root
      9 foreign -> 8 foreign -> 7 foreign -> 6 foreign -> 5 OURS -> 4 ...
      `---------- current metadata ------'   `-- expired: found in the metadata files
                                                 that the metadata log still names --'

The tag is no part of the walk: after a rollback it is ahead of main. Pure: snapshots as values go in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pipeline.errors import ChainBroken

POSITIONS = "headrace.positions"
STATE = "headrace.state"
"""Where positions and ledger are, when they are too large for the summary."""

_PICKED = "source-snapshot-id"
"""What other engines write on a cherry-pick: the rows of a snapshot, without what its summary says."""
_FIRST = 1
"""Sequence number of a table's first snapshot: it has no parent, whatever may have expired."""


@dataclass(frozen=True, slots=True)
class Link:
    """One snapshot, as one metadata file tells it."""

    snapshot: int
    parent: int | None
    sequence: int
    at: int = 0
    """Milliseconds since 1970, as the table has it."""
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        return POSITIONS in self.summary or STATE in self.summary

    @property
    def picked(self) -> bool:
        return _PICKED in self.summary

    @property
    def source(self) -> str | None:
        """Of a cherry-pick: the snapshot whose rows it brought."""
        return self.summary.get(_PICKED)


Known = Mapping[int, Link]


def ancestors(head: int | None, current: Known, older: Iterator[Known]) -> Iterator[Link]:
    """From the head to the root. `older` yields the snapshots of earlier metadata files, newest first, and is
    asked only where a link is missing.

    pyiceberg's expiry takes the parent id from the children of what it removes, so that a snapshot without
    parent is believed to be the root only if it is the table's first, or if the metadata files show its birth.
    """
    known = dict(current)
    oldest = current

    def dig(at: int) -> None:
        nonlocal oldest
        found = next(older, None)
        if found is None:
            raise _lost(at)
        oldest = found
        for each, link in found.items():
            if each not in known or known[each].parent is None:
                known[each] = link

    at = head
    while at is not None:
        while at not in known:
            dig(at)
        yield known[at]
        while known[at].parent is None and known[at].sequence > _FIRST and at in oldest:
            dig(at)
        at = known[at].parent


def nearest_ours(head: int | None, current: Known, older: Iterator[Known]) -> Link | None:
    """The snapshot whose positions are the table's. None: the walk ended at the root without one."""
    for link in ancestors(head, current, older):
        if link.picked:
            raise ChainBroken(
                f"snapshot {link.snapshot} of the landing table is a cherry-pick: it may hold rows of ours without "
                "their positions. Nothing was committed and nothing will be, so nothing is doubled; run "
                "`headrace repair`, which takes the positions from the rows"
            )
        if link.ours:
            return link
    return None


def landed(
    head: int | None, current: Known, older: Iterator[Known], *, tries: Collection[int], since: int
) -> int | None:
    """Which of some snapshots is an ancestor of main. Being in the metadata isn't enough: it may be rolled back.

    `since` is the lowest sequence number among the tries: below it the walk needn't go.
    """
    for link in ancestors(head, current, older):
        if link.snapshot in tries:
            return link.snapshot
        if link.sequence < since:
            return None
    return None


def _lost(at: int) -> ChainBroken:
    return ChainBroken(
        f"the landing table's history is broken at snapshot {at}: neither the current metadata nor the metadata "
        "files that its log names know where it came from, so the positions before it can't be found. Nothing was "
        "committed; run `headrace repair`, which takes the positions from the rows"
    )
