"""Which files of the lake table may be deleted. Pure functions on values.

A file's age counts from the look that first saw it without a name, not from the time when it was written: a file of ten days ago
that a compaction replaced a minute ago may have a reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

_LONGEST = timedelta(hours=36)
"""The most time that counts between two looks. In a longer break a file may have got a name and lost it again, unseen; and a clock
that jumps days ahead makes no file old."""


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file with a name of the form that Headrace gives."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Unnamed:
    """What is remembered from look to look. Losing it makes all files wait once more."""

    looked: datetime | None = None
    """When the last look was."""
    since: Mapping[str, timedelta] = field(default_factory=dict)
    """The files that nothing named at the last look, each with the time that counts."""


@dataclass(frozen=True, slots=True)
class FilesLook:
    """The files of a table, as one look found them."""

    stored: tuple[StoredFile, ...]
    named: Collection[str]
    """The paths of all files that the newest metadata, or an older metadata file that its log names, leads to."""
    is_frozen: bool = False
    """The table's owner has forbidden the deletion of files (`gc.enabled` is false)."""


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    due: tuple[StoredFile, ...]
    waiting: tuple[StoredFile, ...]
    memory: Unnamed
    """What to remember, as if nothing were deleted."""


def plan_deletion(
    stored: Iterable[StoredFile], named: Collection[str], before: Unnamed, *, now: datetime, after: timedelta
) -> DeletionPlan:
    """`named`: the paths of all files that the table's metadata names. `after`: how long a file has to be without a name."""
    passed = timedelta() if before.looked is None else min(max(now - before.looked, timedelta()), _LONGEST)
    unnamed = sorted(each for each in stored if each.path not in named)
    since = {
        each.path: before.since[each.path] + passed if each.path in before.since else timedelta()
        for each in unnamed
    }
    return DeletionPlan(
        tuple(each for each in unnamed if since[each.path] >= after),
        tuple(each for each in unnamed if since[each.path] < after),
        Unnamed(now, since),
    )
