"""The ports of upkeep: a table's data files, their compaction, and the files of its folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
    from headrace.pipeline.upkeep.deletion_plan import FilesLook, StoredFile, Unnamed
    from headrace.pipeline.upkeep.rewrite_plan import FileGroup, Replaced, Rewritten


class LiveTable(Protocol):
    """The data files of the lake table's newest snapshot, for compaction and retention. No method lands a record
    or moves a position: each commit carries the positions of the snapshot that it is built on.
    """

    def live(self) -> LiveFiles:
        """Load the table anew, and return its data files."""
        ...

    def replace(self, rewritten: Sequence[Rewritten]) -> Replaced:
        """Put rewritten files in the place of the files of their groups, in one commit. A group stays as it is
        where `why_left` has a reason in the snapshot that the commit is built on, and so do all groups where
        other commits keep coming first.

        Raises CommitUnknown where an answer was lost and the table doesn't show the commit: it lands whole or not
        at all.
        """
        ...

    def drop(self, before: date) -> tuple[LiveFile, ...]:
        """Remove the files from the table that `outlived` returns, in one commit by which the table states that this is the first day that
        is left. Returns the removed files, which stay in the storage.
        """
        ...


Rewriter = Callable[["Sequence[FileGroup]"], "tuple[Rewritten, ...]"]
"""Writes the rows of each group into one new file that no commit names yet, in the order of shard and sequence number.
A group that fails has an error, and doesn't stop the others."""


class TableFiles(Protocol):
    """The files in the folders of a table, for upkeep. Nothing else in Headrace deletes files."""

    def look(self) -> FilesLook:
        """Load the table anew, and list the files in its folders that have names of the form that Headrace gives.

        Raises WrongShape where the table names a file that the listing doesn't have.
        """
        ...

    def remembered(self) -> Unnamed:
        """What the last upkeep remembered about unnamed files; `Unnamed()` if that can't be read."""
        ...

    def remember(self, memory: Unnamed) -> None: ...

    def fence(self) -> None:
        """Make an empty commit. Every commit to the table that was prepared before it is refused from then on."""
        ...

    def delete(self, files: Sequence[StoredFile]) -> tuple[tuple[StoredFile, ...], str | None]:
        """Delete these files. Returns those that are gone, and an error where not all are."""
        ...
