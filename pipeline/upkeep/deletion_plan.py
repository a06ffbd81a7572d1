"""Which files of the lake table may be deleted. Pure functions on values.

A file is named or unnamed: the table's metadata leads to it, or doesn't. An unnamed file's age is counted from
the upkeep that first found it unnamed, not from the time when it was written: a file of ten days ago that a
compaction replaced a minute ago may have a reader.

Only metadata files that are older than all files in the table's metadata log needn't wait: each commit replaces the
metadata file, and Iceberg itself would delete the oldest one then. Newer metadata files wait like all other files: a
catalog that was restored from a backup doesn't name the newest ones, and a person may still need them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

_LONGEST = timedelta(hours=36)
"""The most time that counts between two looks. In a longer break a file may have been named and become unnamed again,
unseen. The limit also keeps a clock that jumps days ahead from making a file old."""


# Iceberg's name of a metadata file: the count of commits with at least five digits, and a uuid.
_METADATA = re.compile(r"/(\d{5,})-[^/]+\.metadata\.json$")


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file with a name of the form that Headrace gives."""

    path: str
    size: int

    @property
    def version(self) -> int | None:
        """The number in the name of a metadata file, which counts the table's commits; None for another file."""
        return _version(self.path)


@dataclass(frozen=True, slots=True)
class Unnamed:
    """The files that the last upkeep found in the table's folder and that no metadata named. If this memory is
    lost, all of them have to wait once more.
    """

    looked: datetime | None = None
    """When the last look was."""
    since: Mapping[str, timedelta] = field(default_factory=dict)
    """The path of each file that was unnamed at the last look -> the file's age, counted from the look that first found
    it unnamed."""


@dataclass(frozen=True, slots=True)
class FilesLook:
    """The files of a table, as they were listed once."""

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
    """Choose which stored files are deleted now.

    `named`: the paths of all files that the table's metadata names. `after`: how long a file has to be unnamed.
    """
    # A clock that was set back gives a negative time: then no file grows older by this look.
    passed = timedelta() if before.looked is None else min(max(now - before.looked, timedelta()), _LONGEST)
    unnamed = sorted(f for f in stored if f.path not in named)
    since = {
        f.path: before.since[f.path] + passed if f.path in before.since else timedelta() for f in unnamed
    }
    # Without a version in the log, 0 lets no metadata file count as older than the log.
    oldest = min((version for path in named if (version := _version(path)) is not None), default=0)
    due: list[StoredFile] = []
    waiting: list[StoredFile] = []
    for file in unnamed:
        # No catalog leads to a metadata file that has left the log, and none ever will again.
        is_out_of_log = file.version is not None and file.version < oldest
        (due if is_out_of_log or since[file.path] >= after else waiting).append(file)
    return DeletionPlan(tuple(due), tuple(waiting), Unnamed(now, since))


def _version(path: str) -> int | None:
    match = _METADATA.search(path)
    return None if match is None else int(match.group(1))
