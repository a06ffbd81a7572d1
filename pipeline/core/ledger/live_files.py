"""The data files of a table's newest snapshot, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the newest snapshot of main. A file that equals one of an earlier look still has the same rows."""

    path: str
    day: str | None
    """The day (UTC) on which all its rows arrived, as YYYY-MM-DD; None where the file isn't of one day."""
    rows: int
    size: int
    newest: datetime | None = None
    """When the last of its rows arrived, as far as the table knows."""
    is_ours: bool = True
    """Its name is of the form that only Headrace gives, and it has the table's present partitioning."""
    deletes: frozenset[str] = frozenset()
    """The delete files by which another engine has deleted some of its rows."""


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The data files of a table, as its newest snapshot had them when it was loaded."""

    files: tuple[LiveFile, ...] = ()
    schema: int = 0
    """The number of the table's schema."""
    obstacle: str = ""
    """Why no file of the table may be rewritten: a sentence for people."""
