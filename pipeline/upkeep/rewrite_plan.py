"""Which data files of the lake table are written anew, and which rewritten files may take their place. Pure functions
on values.

    look -> plan_compaction -> Spark writes each group of files as one file -> another look -> why_left? -> one commit
    for each day

Between the first look and the commit, other writers work on the table. A group that isn't found exactly as it was
planned is left: if another engine has deleted rows of it meanwhile by a delete file, the rewritten file would bring
them back (I35 of docs/reference/protocol.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
from headrace.pipeline.core.words.words import counted

_WORTH = 5
"""This many files of one day are worth a rewrite, although they don't fill a file of the wanted size. So the last
records of a day are rewritten once in five waves at most, and a single file is never rewritten."""
_FULL = 0.75
"""A file that has at least this part of the wanted size isn't rewritten: little would be gained."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one day whose rows are to be in one file."""

    day: str
    files: tuple[LiveFile, ...]
    schema: int

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    groups: tuple[FileGroup, ...] = ()
    """Groups of one day stand together; the oldest day comes first."""
    left: tuple[str, ...] = ()
    """Which files are left as they are although they are small, and why: sentences for people."""

    def by_day(self) -> Iterator[tuple[FileGroup, ...]]:
        for _, groups in groupby(self.groups, key=lambda group: group.day):
            yield tuple(groups)


@dataclass(frozen=True, slots=True, order=True)
class ShardDigest:
    """The number of rows of one shard and the sum of a hash of each: two sets of files with the same digest have
    the same rows of the shard.
    """

    stream: str
    epoch: int
    shard_id: str
    rows: int
    sum: int
    """The sum of a number for each row, made from its sequence numbers, its arrival and its size: the order doesn't
    count."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A group of files, and the new file that has their rows. No commit names that file yet."""

    group: FileGroup
    file: StagedFile | None = None
    """The new file; None where the group couldn't be rewritten."""
    before: tuple[ShardDigest, ...] = ()
    """The digests of the rows as they were read from the group's files."""
    after: tuple[ShardDigest, ...] = ()
    """The digests of the rows as they were read from the new file."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """A group of files that isn't replaced for now, and why."""

    group: FileGroup
    why: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """The result of a commit that replaces groups of files."""

    snapshot: int | None
    """The snapshot that the commit made; None where nothing was committed."""
    done: tuple[Rewritten, ...] = ()
    left: tuple[Left, ...] = ()


def plan_compaction(live: LiveFiles, *, now: datetime, after: timedelta, target: int) -> CompactionPlan:
    """Choose which files are compacted, and into which groups.

    `after`: how long ago the last row of a file must have arrived. `target`: the wanted size of a file, in bytes.
    """
    if live.obstacle:
        return CompactionPlan(left=(live.obstacle,))
    # A file of unknown day may have rows of many days, and a rewritten file has to be of one.
    small = [file for file in live.files if file.size < _FULL * target and file.day is not None]
    closed = [file for file in small if file.newest is not None and now - file.newest >= after]
    fit = sorted(
        (file for file in closed if file.is_ours and not file.deletes),
        key=lambda file: (file.day or "", file.newest or now, file.path),
    )
    groups = [
        FileGroup(day or "", files, live.schema)
        # groupby joins neighbours only: `fit` is sorted by the day first.
        for day, of_day in groupby(fit, key=lambda file: file.day)
        for files in _packed(of_day, target)
        if len(files) >= _WORTH or sum(file.size for file in files) >= _FULL * target
    ]
    return CompactionPlan(tuple(groups), tuple(_told(closed)))


def why_left(rewritten: Rewritten, live: LiveFiles) -> str | None:
    """Why a rewritten group may not take the place of its files in the snapshot that `live` shows; None if it may."""
    group, file = rewritten.group, rewritten.file
    if file is None:
        return rewritten.error or "Spark wrote no file"
    read = sum(digest.rows for digest in rewritten.before)
    # Three counts that are made apart: by the table's metadata, by the task that read, and by the one that wrote.
    if not file.rows == read == group.rows:
        return f"the group's files have {counted(group.rows, 'row')}, {read:,} were read, and {file.rows:,} were written"
    # The same number of rows may still be other rows: a sum for each shard tells them apart.
    if rewritten.before != rewritten.after:
        return "the rows that were written aren't those that were read"
    if live.obstacle:
        return live.obstacle
    # The new file lacks a column that was added since, and rows that were written with it would lose its values.
    if live.schema != group.schema:
        return "another tool has changed the table's columns since the files were read"
    by_path = {f.path: f for f in live.files}
    for source in group.files:
        if source.path not in by_path:
            return f"another commit has removed {source.path} since it was read"
        # The same path with other delete files: the rewritten file would bring the deleted rows back (I35).
        if by_path[source.path] != source:
            return f"another engine has deleted rows of {source.path} since the file was read"
    return None


def outlived(live: LiveFiles, *, before: date) -> tuple[LiveFile, ...]:
    """The files that the retention removes: those of whole days before this one."""
    return tuple(
        file for file in live.files if file.day is not None and date.fromisoformat(file.day) < before
    )


def _packed(files: Iterable[LiveFile], target: int) -> Iterator[tuple[LiveFile, ...]]:
    """Neighbours in time, so that a rewritten file has the rows of a short time and readers of a time can skip the
    others."""
    pack: list[LiveFile] = []
    size = 0
    for file in files:
        if pack and size + file.size > target:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(file)
        size += file.size
    if pack:
        yield tuple(pack)


def _told(closed: Iterable[LiveFile]) -> Iterator[str]:
    """Which files stay small although they could be compacted, and why: sentences for the report."""
    deleted = sorted(file.day or "" for file in closed if file.deletes)
    if deleted:
        yield (
            f"{counted(len(deleted), 'file')} of {counted(len(set(deleted)), 'day')} left, "
            f"the first of {deleted[0]}: another engine deleted "
            "rows of them by delete files, which its own rewrite_data_files applies"
        )
    foreign = sum(not file.is_ours for file in closed)
    if foreign >= _WORTH:
        yield f"{counted(foreign, 'small file')} of other engines left: Headrace rewrites only its own files"
