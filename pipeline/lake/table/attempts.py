"""The tries of one commit: which of them were sent, and whether one of them is part of the table.

An answer that was lost may belong to any try that was sent. So no error is taken for a failure: the table itself is
loaded again, and the walk over its snapshots shows whether a try is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from headrace.pipeline.core.landing.landing import Landing
from headrace.pipeline.errors import ChainBroken, CommitUnknown, Transient, Unreachable
from headrace.pipeline.lake.table.append import PreparedCommit
from headrace.pipeline.lake.table.history import head_of, links_of, older
from headrace.pipeline.lake.table.position_chain import landed

MOST_TRIES = 100
"""Commits of other writers that may come first before this one gives up. Among 32 writers that commit without a break,
the unluckiest of some hundred commits takes about 40 tries."""
_UNSURE_TRIES = 3
"""Errors without a clear answer in one commit before it raises CommitUnknown."""


@dataclass(frozen=True, slots=True)
class Try:
    attempt: PreparedCommit
    landing: Landing


@dataclass(frozen=True, slots=True)
class Tries:
    identifier: str
    sent: dict[int, Try] = field(default_factory=dict)
    """Every commit that was sent, by its snapshot id."""
    unsure: list[Exception] = field(default_factory=list)
    """The errors of commits that got no clear answer."""

    def found(self, table: Table) -> int | None:
        """The snapshot of a try that is part of main; None where no try is."""
        if not self.sent:
            return None
        return _found([sent_try.attempt for sent_try in self.sent.values()], table, self.identifier)

    def check_patience(self) -> None:
        """Give up after too many tries whose outcome isn't known. Raises CommitUnknown."""
        # Each unsure try may still land. The next wave starts at the table's positions, whichever
        # of them did.
        if len(self.unsure) >= _UNSURE_TRIES:
            raise CommitUnknown(
                f"{len(self.unsure)} commits to {self.identifier} got no clear answer, and the table shows none of "
                f"them yet (last error: {self.unsure[-1]}). The staged files are kept; the next wave starts at the table's positions"
            ) from self.unsure[-1]
        if len(self.sent) >= MOST_TRIES:
            raise Transient(
                f"{len(self.sent)} times another commit to {self.identifier} was faster. Nothing was committed; the next wave reads "
                "the same records again"
            )


def send_once(attempt: PreparedCommit, table: Table, identifier: str, *, again: Callable[[], Table]) -> bool:
    """Send an attempt once, and return whether it landed. `again`: loads the table anew, for the case that the
    answer was lost or unclear.
    """
    lost: Exception | None = None
    try:
        attempt.send(table)
    except CommitFailedException:
        pass  # another commit was faster, or this one was sent twice and its first request landed: the look below tells
    except Exception as error:  # noqa: BLE001 - of any error but a refusal the commit may have landed
        lost = error
    else:
        return True
    try:
        has_landed = _found([attempt], again(), identifier) is not None
    except Unreachable as error:
        lost, has_landed = lost or error, False
    if lost is None or has_landed:
        return has_landed
    raise CommitUnknown(
        f"a commit to {identifier} got no clear answer, and the table doesn't show it yet ({lost}). The commit "
        "lands whole or not at all; run the command again to see"
    ) from lost


def _found(attempts: Collection[PreparedCommit], table: Table, identifier: str) -> int | None:
    """The snapshot of the attempt that is part of main, if one is.

    Only ancestors of main's head count: a snapshot that the metadata knows may have been rolled back (D17).
    """
    try:
        return landed(
            head_of(table),
            links_of(table.metadata),
            older(table),
            tries={attempt.snapshot for attempt in attempts},
            since=min(attempt.sequence for attempt in attempts),
        )
    except ChainBroken as cut:
        # The positions are found, so that nothing is broken. Only the part of the history is gone in which this commit
        # would be.
        raise CommitUnknown(
            f"whether a commit to {identifier} landed isn't known: the snapshots of that time have been expired since. The "
            "commit landed whole or not at all, and the next wave starts at the table's positions"
        ) from cut
