"""The data files of the lake table in memory, as compaction and retention see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.upkeep.ports import LiveTable
from headrace.pipeline.upkeep.rewrite_plan import (
    FileGroup,
    Left,
    Replaced,
    Rewritten,
    ShardDigest,
    outlived,
    why_left,
)
from tests.memory.table import MemoryTable

_TRIES = 5

Row = tuple[ShardKey, int]


class MemoryLive(LiveTable):
    def __init__(self, lake: MemoryTable) -> None:
        self.deletes: dict[str, frozenset[str]] = {}
        """By data file: the delete files by which another engine has deleted rows of it."""
        self.schema = 0
        self._lake = lake

    def live(self) -> LiveFiles:
        return self._live(self._lake.load())

    def replace(self, rewritten: Sequence[Rewritten]) -> Replaced:
        for _ in range(_TRIES):
            base = self._lake.load()
            live = self._live(base)
            reasons = [(each, why_left(each, live)) for each in rewritten]
            done = tuple(each for each, why in reasons if why is None)
            left = tuple(Left(each.group, why) for each, why in reasons if why is not None)
            if not done:
                return Replaced(None, (), left)
            added = tuple(each.file for each in done if each.file is not None)
            removed = frozenset(file.path for each in done for file in each.group.files)
            snapshot = self._lake.exchange(base, added, removed)
            if snapshot is not None:
                return Replaced(snapshot, done, left)
        faster = f"{_TRIES} times another commit was faster"
        return Replaced(None, (), (*left, *(Left(each.group, faster) for each in done)))

    def drop(self, before: date) -> tuple[LiveFile, ...]:
        for _ in range(_TRIES):
            base = self._lake.load()
            dropped = outlived(self._live(base), before=before)
            if not dropped:
                break
            paths = frozenset(each.path for each in dropped)
            if self._lake.exchange(base, (), paths, kept_from=before) is not None:
                return dropped
        return ()

    def _live(self, base: TableState) -> LiveFiles:
        return LiveFiles(
            tuple(
                LiveFile(
                    each.path,
                    each.partition,
                    each.rows,
                    each.size,
                    each.staged_at,
                    deletes=self.deletes.get(each.path, frozenset()),
                )
                for each in self._lake.files_at(base.snapshot)
            ),
            self.schema,
        )


class MemoryRewriter:
    """`rows` has the rows of each file by its path: tuples of `Row`, or of `tests.memory.parse.TypedRow`. `spoil` may change what is
    written."""

    def __init__(self, rows: dict[str, Any], clock: Clock) -> None:
        self.spoil: Callable[[tuple[Row, ...]], tuple[Row, ...]] = lambda rows: rows
        self._rows = rows
        self._clock = clock

    def __call__(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
        return tuple(map(self._rewrite, groups))

    def _rewrite(self, group: FileGroup) -> Rewritten:
        read = tuple(row for each in group.files for row in self._rows[each.path])
        written = self.spoil(tuple(sorted(read)))
        path = f"{group.files[0].path}+{len(self._rows)}"
        self._rows[path] = written
        size = sum(each.size for each in group.files)
        file = StagedFile(
            path, frozenset(), len(written), size, b"", partition=group.day, staged_at=self._clock.now()
        )
        return Rewritten(group, file, digest(read), digest(written))


def digest(rows: Sequence[Row]) -> tuple[ShardDigest, ...]:
    found: Mapping[ShardKey, list[int]] = {key: [] for key, *_ in rows}
    for key, sequence, *_ in rows:
        found[key].append(sequence)
    return tuple(
        sorted(
            ShardDigest(key.stream.name, key.stream.epoch, key.shard_id, len(its), sum(its))
            for key, its in found.items()
        )
    )
